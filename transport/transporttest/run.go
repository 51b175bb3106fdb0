package transporttest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/vitrine-mcp/vitrine/transport"
)

// A Peer is the far end of the connection under test.
type Peer struct {
	// Conn carries the frames of the peer. Its Close is an orderly end, like that of a client
	// that has finished.
	Conn transport.Conn
	// HalfClose closes the output of the peer, which goes on reading. It is nil if the transport
	// has no half-close.
	HalfClose func() error
}

// Run checks each promise of [transport.Conn] in a subtest of its own. connect returns the two
// ends of a new connection: the one under test, and its peer. It is called several times in a
// subtest. Run closes both ends. Everything that connect starts must end with them; start a
// listener that many connections share before Run.
//
// Run skips a subtest for an interface that the connection does not implement. It counts
// goroutines, so that no other test may run in parallel.
func Run(t *testing.T, connect func(t *testing.T) (transport.Conn, Peer)) {
	t.Helper()
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			err := c.against(func() (transport.Conn, Peer) { return connect(t) })
			switch {
			case errors.Is(err, errNotThere):
				t.Skip(err)
			case err != nil:
				t.Error(err)
			}
		})
	}
}

// A check tests one promise. Its error says how the promise is broken.
type check struct {
	name string
	run  func(connect func() (transport.Conn, Peer)) error
}

// checks are in the order of the documentation of transport.Conn.
var checks = []check{
	{"FramesFromThePeer", each(framesFromThePeer)},
	{"FramesToThePeer", each(framesToThePeer)},
	{"FramesInParts", each(framesInParts)},
	{"MemoryOfFrames", each(memoryOfFrames)},
	{"LargeFrames", each(largeFrames)},
	{"FramesAboveTheLimit", each(framesAboveTheLimit)},
	{"HalfClose", each(halfClose)},
	{"PeerCloses", each(peerCloses)},
	{"CloseWakesReadFrame", each(closeWakesReadFrame)},
	{"CloseWakesWriteFrame", each(closeWakesWriteFrame)},
	{"WriteDeadline", each(writeDeadline)},
	{"AfterClose", each(afterClose)},
	{"WriteAfterThePeerHasGone", each(writeAfterThePeerHasGone)},
	{"ReadAndWriteAtTheSameTime", each(readAndWriteAtTheSameTime)},
	{"Describe", each(describe)},
	{"NoGoroutineIsLeft", noGoroutineIsLeft},
}

// errNotThere is wrapped by the error of a check that does not apply.
var errNotThere = errors.New("nothing to check")

// each makes a check from a function that needs one connection.
func each(f func(ours transport.Conn, peer Peer) error) func(func() (transport.Conn, Peer)) error {
	return func(connect func() (transport.Conn, Peer)) error {
		ours, peer := connect()
		return f(ours, peer)
	}
}

// against runs the check and closes its connections.
func (c check) against(connect func() (transport.Conn, Peer)) error {
	var ends []transport.Conn
	err := c.run(func() (transport.Conn, Peer) {
		ours, peer := connect()
		ends = append(ends, ours, peer.Conn)
		return ours, peer
	})
	for _, end := range ends {
		closing := within("Close", func() error {
			_ = end.Close() // Close may return an error
			return nil
		})
		if err == nil {
			err = closing
		}
	}
	return err
}

// patience is the time that a check waits for something that must happen at once.
const patience = 10 * time.Second

// within returns the error of f, or an error that names what after the patience is over.
func within(what string, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return await(what, done)
}

func await(what string, done <-chan error) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return errBroken{fmt.Errorf("%s has not returned within %v", what, patience)}
	}
}
