package transporttest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/transport"
)

// A sound is a connection that keeps all promises, with its optional methods. The broken ones
// below each change something of it.
type sound struct {
	transport.Conn
	over chan struct{} // closed when the check has ended
}

func (c sound) Flush() error { return c.Conn.(transport.Flusher).Flush() }
func (c sound) WriteParts(head, tail []byte) error {
	return c.Conn.(transport.PartsWriter).WriteParts(head, tail)
}
func (c sound) Describe() transport.Info                 { return transport.Info{Name: "sound"} }
func (c sound) writeNow(frame []byte) error              { return errors.Join(c.Conn.WriteFrame(frame), c.Flush()) }
func (c sound) read(limit int) (frame []byte, err error) { return c.Conn.ReadFrame(limit) }

// A halfPipe is one end of two pipes, each of which may be closed by itself.
type halfPipe struct {
	*io.PipeReader
	*io.PipeWriter
}

func (p halfPipe) Close() error {
	p.PipeReader.Close()
	return p.PipeWriter.Close()
}

func (halfPipe) SetWriteDeadline(time.Time) error { return errors.New("no deadlines") }

func halfPipes() (ours, theirs halfPipe) {
	ourIn, theirOut := io.Pipe()
	theirIn, ourOut := io.Pipe()
	return halfPipe{ourIn, ourOut}, halfPipe{theirIn, theirOut}
}

// What is broken, and by what.

type splitsFrames struct {
	sound
	rest *[]byte
}

func (c splitsFrames) ReadFrame(limit int) ([]byte, error) {
	if rest := *c.rest; rest != nil {
		*c.rest = nil
		return rest, nil
	}
	f, err := c.read(limit)
	if len(f) > 1000 {
		*c.rest = f[1000:]
		f = f[:1000]
	}
	return f, err
}

type swapsFrames struct {
	sound
	first *[]byte
}

func (c swapsFrames) WriteFrame(frame []byte) error {
	if *c.first == nil {
		*c.first = bytes.Clone(frame)
		return nil
	}
	defer func() { *c.first = nil }()
	return errors.Join(c.writeNow(frame), c.writeNow(*c.first))
}

type losesTails struct{ sound }

func (c losesTails) WriteParts(head, _ []byte) error { return c.Conn.WriteFrame(head) }

type reusesMemory struct {
	sound
	memory []byte
}

func (c reusesMemory) ReadFrame(limit int) ([]byte, error) {
	f, err := c.read(limit)
	return c.memory[:copy(c.memory, f)], err
}

type keepsMemory struct {
	sound
	kept *[]byte
}

func (c keepsMemory) WriteFrame(frame []byte) error {
	last := *c.kept
	if *c.kept = frame; last == nil {
		return nil
	}
	return c.writeNow(last)
}

type smallFrames struct{ sound }

func (c smallFrames) ReadFrame(int) ([]byte, error) { return c.read(64 << 10) }

type noLimit struct{ sound }

func (c noLimit) ReadFrame(int) ([]byte, error) { return c.read(1 << 30) }

type failsAtEOF struct{ sound }

func (c failsAtEOF) ReadFrame(limit int) ([]byte, error) {
	f, err := c.read(limit)
	if err != nil {
		err = errors.New("read failed")
	}
	return f, err
}

type closesAtEOF struct{ sound }

func (c closesAtEOF) ReadFrame(limit int) ([]byte, error) {
	f, err := c.read(limit)
	if errors.Is(err, io.EOF) {
		c.Close()
	}
	return f, err
}

type endsOnce struct {
	sound
	ended *bool
}

func (c endsOnce) ReadFrame(limit int) ([]byte, error) {
	if *c.ended {
		<-c.over
	}
	f, err := c.read(limit)
	*c.ended = err != nil
	return f, err
}

type sleepsOn struct{ sound }

func (c sleepsOn) Close() error { return nil }

type queuesForEver struct{ sound }

func (c queuesForEver) WriteFrame([]byte) error { return nil }

type ignoresDeadlines struct{ sound }

func (ignoresDeadlines) SetWriteDeadline(time.Time) error { return nil }

type deadlinesLater struct{ sound }

func (c deadlinesLater) WriteFrame(frame []byte) error {
	if err := c.writeNow(frame); err != nil {
		return errors.New("too late")
	}
	return nil
}

type closesOnce struct {
	sound
	closed chan struct{}
}

func (c closesOnce) Close() error {
	select {
	case <-c.closed:
		<-c.over // what a lock that was not released does
	default:
		close(c.closed)
		return c.Conn.Close()
	}
	return nil
}

type writesAfterClose struct{ sound }

func (c writesAfterClose) WriteFrame(frame []byte) error {
	_ = c.writeNow(frame)
	return nil
}

func (c writesAfterClose) Flush() error { return nil }

type hidesErrors struct{ sound }

func (c hidesErrors) WriteFrame(frame []byte) error {
	if err := c.writeNow(frame); err != nil {
		return errors.New("write failed")
	}
	return nil
}

type takesTurns struct {
	sound
	turn chan struct{} // capacity 1: a lock that a bubble can see
}

func (c takesTurns) ReadFrame(limit int) ([]byte, error) {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	return c.read(limit)
}

func (c takesTurns) WriteFrame(frame []byte) error {
	c.turn <- struct{}{}
	defer func() { <-c.turn }()
	return c.writeNow(frame)
}

type nameless struct{ sound }

func (nameless) Describe() transport.Info { return transport.Info{Name: "a\nb"} }

// Each broken promise is reported by its check, in the words of that check. In a bubble a
// connection that hangs takes no time.
func TestEachBrokenPromiseIsReported(t *testing.T) {
	for _, tt := range []struct {
		check string
		broke func(sound) transport.Conn
		want  string
	}{
		{"FramesFromThePeer", func(c sound) transport.Conn { return splitsFrames{c, new([]byte)} }, "has read"},
		{"FramesToThePeer", func(c sound) transport.Conn { return swapsFrames{c, new([]byte)} }, "has read"},
		{"FramesInParts", func(c sound) transport.Conn { return losesTails{c} }, "has read"},
		{"MemoryOfFrames", func(c sound) transport.Conn { return reusesMemory{c, make([]byte, 1<<20)} }, "has changed a frame"},
		{"MemoryOfFrames", func(c sound) transport.Conn { return keepsMemory{c, new([]byte)} }, "has kept the memory"},
		{"LargeFrames", func(c sound) transport.Conn { return smallFrames{c} }, "larger than the limit"},
		{"FramesAboveTheLimit", func(c sound) transport.Conn { return noLimit{c} }, "has returned a frame of 1048"},
		{"HalfClose", func(c sound) transport.Conn { return failsAtEOF{c} }, "want io.EOF"},
		{"HalfClose", func(c sound) transport.Conn { return closesAtEOF{c} }, "must still be sent frames"},
		{"PeerCloses", func(c sound) transport.Conn { return failsAtEOF{c} }, "want io.EOF, transport.ErrPeerClosed or"},
		{"PeerCloses", func(c sound) transport.Conn { return endsOnce{c, new(bool)} }, "ReadFrame has not returned"},
		{"CloseWakesReadFrame", func(c sound) transport.Conn { return sleepsOn{c} }, "ReadFrame after Close has not returned"},
		{"CloseWakesWriteFrame", func(c sound) transport.Conn { return sleepsOn{c} }, "WriteFrame after Close has not returned"},
		{"CloseWakesWriteFrame", func(c sound) transport.Conn { return queuesForEver{c} }, "WriteFrame must block"},
		{"CloseWakesWriteFrame", func(c sound) transport.Conn { return hidesErrors{c} }, "want closed_writer"},
		{"WriteDeadline", func(c sound) transport.Conn { return ignoresDeadlines{c} }, "with a deadline that has passed has not returned"},
		{"WriteDeadline", func(c sound) transport.Conn { return deadlinesLater{c} }, "want write_timeout"},
		{"AfterClose", func(c sound) transport.Conn { return closesOnce{c, make(chan struct{})} }, "Close has not returned"},
		{"AfterClose", func(c sound) transport.Conn { return writesAfterClose{c} }, "no error, want one of class closed_writer"},
		{"WriteAfterThePeerHasGone", func(c sound) transport.Conn { return hidesErrors{c} }, "does not know the error"},
		{"ReadAndWriteAtTheSameTime", func(c sound) transport.Conn { return takesTurns{c, make(chan struct{}, 1)} }, "while ReadFrame waits"},
		{"Describe", func(c sound) transport.Conn { return nameless{c} }, "cannot be printed"},
		{"NoGoroutineIsLeft", func(c sound) transport.Conn {
			for range 10 { // more than those of other tests that end just now
				go func() { <-c.over }()
			}
			return c
		}, "10 connections have left"},
	} {
		t.Run(tt.check+": "+tt.want, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				err := against(t, tt.check, tt.broke)
				require.ErrorContains(t, err, tt.want)
			})
		})
	}
}

// A connection that keeps all promises passes all checks.
func TestSoundConnectionPassesAllChecks(t *testing.T) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				require.NoError(t, against(t, c.name, func(c sound) transport.Conn { return c }))
			})
		})
	}
}

// against runs a check against connections in memory, and then unblocks what hangs in them.
func against(t *testing.T, name string, broke func(sound) transport.Conn) error {
	t.Helper()
	var pipes []io.Closer
	over := make(chan struct{})
	defer func() {
		close(over)
		for _, p := range pipes {
			p.Close()
		}
	}()
	connect := func() (transport.Conn, Peer) {
		if name == "HalfClose" {
			ours, theirs := halfPipes()
			pipes = append(pipes, ours, theirs)
			return broke(sound{transport.Lines(ours), over}), Peer{Conn: transport.Lines(theirs), HalfClose: theirs.PipeWriter.Close}
		}
		ours, theirs := net.Pipe()
		pipes = append(pipes, ours, theirs)
		return broke(sound{transport.Lines(ours), over}), Peer{Conn: transport.Lines(theirs)}
	}
	for _, c := range checks {
		if c.name == name {
			return c.against(connect)
		}
	}
	t.Fatalf("there is no check %s", name)
	return nil
}
