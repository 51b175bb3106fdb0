package session

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
)

func (sc *script) breakWire(a, b byte) {
	if k, ok := pickOne(sc.wires(), a); ok {
		k.breakNext(wireErrors[int(b>>1)%len(wireErrors)], b&1 != 0)
	}
}

func (sc *script) stick(a, _ byte) {
	if k, ok := pickOne(sc.wires(), a); ok {
		k.change(func() { k.stuck, k.wasStuck = true, true })
	}
}

func (sc *script) unstick(a, b byte) {
	for i, k := range sc.wires() {
		if b&1 == 0 || i == int(a) {
			k.change(func() { k.stuck = false })
		}
	}
}

func (sc *script) sleep(_, b byte) {
	times := []time.Duration{
		time.Millisecond, 100 * time.Millisecond, 501 * time.Millisecond, 998 * time.Millisecond, time.Second,
		2 * time.Second, 3 * time.Second, 6 * time.Second, 10 * time.Second, 21 * time.Second,
	}
	d, _ := pickOne(times, b)
	time.Sleep(d)
}

// lose takes away the connection of an exchange.
func (sc *script) lose(a, _ byte) {
	var open []*farPost
	for _, x := range sc.posts {
		if !x.ended() {
			open = append(open, x)
		}
	}
	if x, ok := pickOne(open, a); ok {
		x.lose()
	}
}

func (sc *script) attach(a, _ byte) {
	end, ok := pickOne(sc.https, a)
	if !ok {
		return
	}
	x := sc.exchange(end, 0, mcp.Legacy)
	streaming := end.get != nil && !end.get.ended()
	if !end.s.Attach(x.stream) {
		x.stream.Fail(mcp.DropClosedWriter)
		close(x.done)
		return
	}
	if sc.quiet && streaming {
		sc.fault("E8: a second stream was attached")
	}
	end.get = x
	go func() {
		defer close(x.done)
		_ = x.stream.Pump(x.wire)
		x.wire.change(func() { x.wire.over = true })
		end.s.Detach(x.stream)
	}()
}

func (sc *script) detach(a, _ byte) {
	if end, ok := pickOne(sc.https, a); ok && end.get != nil {
		end.get.lose()
	}
}

func (sc *script) deleteSession(a, _ byte) {
	if end, ok := pickOne(sc.https, a); ok {
		end.close(sc, mcp.CauseSessionDelete, func() { end.s.Close(mcp.CauseSessionDelete) })
	}
}

func (sc *script) eof(a, _ byte) {
	if end, ok := pickOne(sc.pipes, a); ok && !end.eof {
		end.eof = true
		go end.s.EOF()
	}
}

func (sc *script) closePipe(a, _ byte) {
	if end, ok := pickOne(sc.pipes, a); ok {
		end.close(sc, mcp.CauseServerShutdown, func() { end.s.Close(mcp.CauseServerShutdown) })
	}
}

func (sc *script) failPipe(a, _ byte) {
	if end, ok := pickOne(sc.pipes, a); ok && !end.eof {
		end.eof, end.broken = true, true
		go end.s.Fail(errors.New("as scripted"))
	}
}

func (sc *script) finishPipe(a, _ byte) {
	if end, ok := pickOne(sc.pipes, a); ok {
		sc.mu.Lock()
		end.closed = append(end.closed, mcp.CauseServerShutdown)
		sc.mu.Unlock()
		go end.s.Finish(mcp.CauseServerShutdown)
	}
}

// close closes a session at once: nothing of it may be undecided afterwards.
func (e *farEnd) close(sc *script, cause mcp.Cause, do func()) {
	sc.mu.Lock()
	e.closed = append(e.closed, cause)
	sc.mu.Unlock()
	var ending bool
	e.s.update(func(st *state) { ending = st.phase >= sessionEnding })
	do()
	if ending || !sc.quiet {
		return
	}
	if left := e.s.requests(); len(left) > 0 {
		sc.fault("E9: %d requests are undecided after the close", len(left))
	}
}

// shutdown begins to drain the core.
func (sc *script) shutdown() {
	if sc.drain != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	d := &fuzzDrain{began: time.Now(), deadline: cancel, done: make(chan struct{})}
	sc.drain = d
	sc.mu.Lock()
	for _, end := range slices.Concat(sc.pipes, sc.https) {
		end.closed = append(end.closed, mcp.CauseServerShutdown)
	}
	sc.mu.Unlock()
	go func() {
		defer close(d.done)
		d.err = sc.core.Shutdown(ctx)
	}()
}

func (sc *script) expireDrain() {
	if sc.drain != nil && sc.drain.expired.IsZero() {
		sc.drain.expired = time.Now()
		sc.drain.deadline()
	}
}

func (sc *script) closeCore() {
	if sc.closedAt.IsZero() {
		sc.closedAt = time.Now()
	}
	sc.core.Close()
}
