package session

import (
	"errors"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A farEnd is a client as a script sees it: a byte stream, a legacy HTTP session,
// or (without a session) the client of one modern exchange.
type farEnd struct {
	s    *Session
	wire *fuzzWire // of a byte stream, else nil
	get  *farPost  // the last GET of a legacy HTTP session

	// What was done to it, from which follows what may become of its requests.
	// closed holds the causes for which it may have been closed.
	eof, broken, garbage bool
	closed               []mcp.Cause

	// Guarded by script.mu.
	asked   []string        // ids of the requests that have reached this client
	replied map[string]bool // ids that it has answered
	told    map[string]bool // the texts of its answers; true once a handler has had it
	calls   map[string]int  // requests whose answer may carry their id, by id
	answers map[string]int  // answers by id
}

// A farPost is one HTTP exchange of a script.
type farPost struct {
	end    *farEnd
	stream *stream.Stream
	wire   *fuzzWire
	modern bool
	lost   bool
	done   chan struct{}
}

// A fuzzWire is the wire end of a stream. It does what the script says, watches
// that only one goroutine writes, that nothing follows a failed write, and hands
// what it has carried to the script's books.
type fuzzWire struct {
	sc  *script
	end *farEnd

	mu        sync.Mutex
	nextWrite error // the verdict of the next write
	nextFlush error
	gone      error // the verdict of all that follow
	stuck     bool  // nothing is read at the other end
	moved     chan struct{}
	deadline  time.Time
	busy      bool
	poisoned  bool
	over      bool // the writer has gone
	pending   []*stream.Message

	rejections int // that have reached the client; guarded by script.mu

	// What was ever done to it.
	wasStuck, wasBroken, wasClosed bool
}

func newFuzzWire(sc *script, end *farEnd) *fuzzWire {
	return &fuzzWire{sc: sc, end: end, moved: make(chan struct{})}
}

// change changes the wire under its lock and lets a stuck write look again.
func (k *fuzzWire) change(f func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f()
	close(k.moved)
	k.moved = make(chan struct{})
}

func (k *fuzzWire) Write(m *stream.Message) error {
	err := k.call(&k.nextWrite)
	if err == nil {
		for _, m := range k.sc.single([]*stream.Message{m}) {
			k.pending = append(k.pending, m)
			k.sc.wrote(k, m)
		}
	}
	return err
}

func (k *fuzzWire) Flush() error {
	err := k.call(&k.nextFlush)
	if err == nil {
		k.sc.flushed(k, k.pending)
		k.pending = nil
	}
	return err
}

func (k *fuzzWire) SetWriteDeadline(t time.Time) { k.change(func() { k.deadline = t }) }

// call is a write or a flush.
func (k *fuzzWire) call(next *error) error {
	k.mu.Lock()
	switch {
	case k.over:
		k.sc.fault("I7: a write after the writer has returned")
	case k.poisoned:
		k.sc.fault("2.6: a write after a failed write")
	case k.busy:
		k.sc.fault("I7: two goroutines write at the same time")
	}
	k.busy = true
	k.mu.Unlock()
	k.sc.jitter()
	err := k.wait(next)
	k.mu.Lock()
	k.busy = false
	k.poisoned = k.poisoned || err != nil
	k.mu.Unlock()
	return err
}

// wait waits while the wire is stuck and returns the verdict.
func (k *fuzzWire) wait(next *error) error {
	for {
		k.mu.Lock()
		err := k.gone
		if err == nil {
			err, *next = *next, nil
		}
		stuck, moved, left := k.stuck, k.moved, time.Until(k.deadline)
		k.mu.Unlock()
		if err != nil || !stuck {
			return err
		}
		timer := time.NewTimer(left)
		select {
		case <-moved:
			timer.Stop()
		case <-timer.C:
			return &stream.WriteError{Reason: mcp.DropWriteTimeout, Err: os.ErrDeadlineExceeded}
		}
	}
}

// The faults of a wire.
var wireErrors = []error{
	&stream.WriteError{Reason: mcp.DropBrokenPeer, Err: syscall.EPIPE},
	&stream.WriteError{Reason: mcp.DropBrokenPeer, Err: syscall.ECONNRESET},
	&stream.WriteError{Reason: mcp.DropBrokenPeer, Err: io.ErrShortWrite},
	&stream.WriteError{Reason: mcp.DropClosedWriter, Err: os.ErrClosed},
	&stream.WriteError{Reason: mcp.DropWriteTimeout, Err: os.ErrDeadlineExceeded},
}

// breakNext makes the next write or flush fail.
func (k *fuzzWire) breakNext(err error, flush bool) {
	k.change(func() {
		next := &k.nextWrite
		if flush {
			next = &k.nextFlush
		}
		*next = err
		k.note(err)
	})
}

// breakDown makes all writes fail, also one that is stuck.
func (k *fuzzWire) breakDown(err error) {
	k.change(func() {
		if k.gone == nil {
			k.gone = err
		}
		k.note(err)
	})
}

func (k *fuzzWire) note(err error) {
	switch stream.WriteReason(err) {
	case mcp.DropBrokenPeer:
		k.wasBroken = true
	case mcp.DropWriteTimeout:
		k.wasStuck = true
	default:
		k.wasClosed = true
	}
}

// may reports whether the wire has been treated so that a message can be dropped
// for this reason.
func (k *fuzzWire) may(reason mcp.DropReason) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return reason == mcp.DropBrokenPeer && k.wasBroken || reason == mcp.DropWriteTimeout && k.wasStuck ||
		reason == mcp.DropClosedWriter && k.wasClosed
}

// wrote notes a message that has begun to go out.
func (sc *script) wrote(k *fuzzWire, m *stream.Message) {
	env, err := wire.Decode(m.Frame, wire.DefaultLimits())
	if err != nil {
		sc.fault("a corrupt frame: %s", m.Frame)
		return
	}
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if m.Kind == stream.Answer && !env.ID.IsZero() {
		key := env.ID.Key()
		if k.end.answers[key]++; k.end.answers[key] > k.end.calls[key]-sc.waiting(k.end, key) {
			sc.faultLocked("I1: more answers with the id %s than requests that may have one: %s", key, m.Frame)
		}
	}
	if m.Reject == mcp.RejectDuplicateID && k == k.end.wire && !env.ID.IsZero() {
		sc.faultLocked("E14: a rejection carries an id that is in flight: %s", m.Frame)
	}
	if requestOf(m) == nil {
		return
	}
	tr := sc.traces[requestOf(m)]
	switch m.Kind {
	case stream.Answer:
		if tr.written++; tr.written > 1 {
			sc.faultLocked("I1: a second answer to %s: %s", tr, m.Frame)
		}
		if env.ID.Raw() != tr.r.ID.Raw() {
			sc.faultLocked("I14: the answer to %s does not echo its id: %s", tr, m.Frame)
		}
		tr.frame = string(m.Frame)
	case stream.Notification:
		if tr.written > 0 {
			sc.faultLocked("I10: a notification of %s after its answer", tr)
		}
	}
}

// waiting counts the requests with an id that are not decided, and cannot have been answered.
func (sc *script) waiting(end *farEnd, key string) (n int) {
	for _, tr := range sc.order {
		if tr.end == end && !tr.refused && tr.r.ID.Key() == key && tr.r.verdict.outcome() == open {
			n++
		}
	}
	return n
}

// flushed notes messages that have reached the client.
func (sc *script) flushed(k *fuzzWire, messages []*stream.Message) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	for _, m := range messages {
		switch m.Kind {
		case stream.Answer:
			if requestOf(m) != nil {
				sc.traces[requestOf(m)].sent++
			} else if m.Reject != "" && m.Reject != mcp.RejectParseError && m.Reject != mcp.RejectTooLarge {
				k.rejections++
			}
		case stream.Notification:
			sc.notesSent[m.Method]++
		case stream.Call:
			if env, err := wire.Decode(m.Frame, wire.DefaultLimits()); err == nil {
				k.end.asked = append(k.end.asked, env.ID.Raw())
			}
		}
	}
}

// newEnd returns a client.
func (sc *script) newEnd() *farEnd {
	return &farEnd{replied: map[string]bool{}, told: map[string]bool{}, calls: map[string]int{}, answers: map[string]int{}}
}

// post opens an exchange and its writer.
func (sc *script) exchange(end *farEnd, answers int, era mcp.Era) *farPost {
	x := &farPost{end: end, wire: newFuzzWire(sc, end), modern: era == mcp.Modern, done: make(chan struct{})}
	x.stream = sc.core.Exchange(httpConn, answers, era)
	sc.mu.Lock()
	sc.byStream[x.stream] = x
	sc.mu.Unlock()
	sc.posts = append(sc.posts, x)
	return x
}

// pump runs the exchange's writer, as ServeHTTP does.
func (x *farPost) pump() {
	go func() {
		defer close(x.done)
		err := x.stream.Pump(x.wire)
		x.wire.change(func() { x.wire.over = true })
		var failed *stream.WriteError
		if err != nil && !errors.As(err, &failed) && !errors.Is(err, mcp.ErrClosed) && !errors.Is(err, mcp.ErrPeerGone) {
			x.wire.sc.fault("Pump returned %v", err)
		}
	}()
}

// ended reports whether the exchange is over.
func (x *farPost) ended() bool {
	select {
	case <-x.done:
		return true
	default:
		return false
	}
}

// lose takes the exchange's connection away.
func (x *farPost) lose() {
	x.lost = true
	x.wire.breakDown(wireErrors[0])
	x.stream.Lost()
}

// connectPipe opens a byte stream whose wire is closed with its session, as the
// transport does it.
func (sc *script) connectPipe(ready bool) *farEnd {
	end := sc.newEnd()
	end.wire = newFuzzWire(sc, end)
	end.s = sc.core.Connect(&Conn{Transport: "stdio", Network: "pipe"}, end.wire)
	sc.mu.Lock()
	sc.bySession[end.s] = end
	sc.mu.Unlock()
	if ready {
		end.s.Initialize(&Peer{Version: mcp.Version20251125})
		end.s.Initialized()
	}
	if sc.drain != nil {
		end.closed = append(end.closed, mcp.CauseServerShutdown)
	}
	go func() {
		<-end.s.Done()
		end.wire.change(func() { // a late write finds a closed pipe
			if end.wire.gone == nil {
				end.wire.gone = wireErrors[3]
			}
		})
	}()
	sc.pipes = append(sc.pipes, end)
	return end
}

// openHTTP opens a legacy HTTP session, if there is room for it.
func (sc *script) openHTTP(id string, ready bool) {
	full := len(sc.core.Snapshot().Sessions) > 0
	s, reason, err := sc.core.Open(httpConn, id)
	if err != nil {
		if reason != mcp.RejectShuttingDown && (reason != mcp.RejectOverload || !full) {
			sc.fault("a session was refused: %s", reason)
		}
		return
	}
	end := sc.newEnd()
	end.s = s
	if sc.drain != nil {
		end.closed = append(end.closed, mcp.CauseServerShutdown)
	}
	sc.mu.Lock()
	sc.bySession[s] = end
	sc.mu.Unlock()
	s.Initialize(&Peer{Version: mcp.Version20251125})
	if ready {
		s.Initialized()
	}
	sc.https = append(sc.https, end)
}

// may reports whether the client may have been closed for this cause.
func (e *farEnd) may(cause mcp.Cause) bool { return slices.Contains(e.closed, cause) }
