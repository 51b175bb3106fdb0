package transporttest

import (
	"errors"
	"testing"

	"github.com/vitrine-mcp/vitrine/transport"
)

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
