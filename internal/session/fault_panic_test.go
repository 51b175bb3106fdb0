package session

import (
	"context"
	"net/http"
	"runtime"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// E13: panics. The client learns that something went wrong, and nothing else.
var cellsE13 = []faultCell{
	{state: "M", test: func(w *world) {
		work := w.gate("work", false)
		handler := w.inner("work")
		w.handle("work", func(ctx context.Context, r *Request) (mcp.Result, error) {
			_, _ = handler(ctx, r)
			panic("secret")
		})
		w.handle("before", func(context.Context, *Request) (mcp.Result, error) { panic("secret") })
		p := w.connect(true)
		p.call("1", "work")
		work.next().finish("done")
		w.panicked(p, 1)
		w.loggedWith("ERROR handler.panic", "id=1", "panic=secret", "fault_panic_test.go")
		p.call("2", "before")
		w.panicked(p, 2)
	}},
	{state: "R", test: func(w *world) {
		g := w.gate("work", false)
		p := w.connect(true)
		for i, v := range []any{"secret", http.ErrAbortHandler, error(nil)} { // panic(nil) is a PanicNilError
			p.call(string(rune('1'+i)), "work")
			h := g.next()
			h.panic(v)
			w.panicked(p, i+1)
			require.Empty(w.t, h.cause())
		}
		p.call("9", "work") // session and process live on
		g.next().finish("done")
		require.Equal(w.t, resultFrame("9", "done"), p.frames()[3])
	}},
	{state: "B", test: func(w *world) {
		asked := make(chan error, 1)
		g := w.gate("work", false)
		handler := w.inner("work")
		w.handle("work", func(ctx context.Context, r *Request) (mcp.Result, error) {
			go func() { // its own panic would be the process's
				_, err := r.Ask(ctx, mcp.MethodRootsList, nil)
				asked <- err
			}()
			return handler(ctx, r)
		})
		p := w.connect(true)
		p.call("1", "work")
		h := g.next()
		require.Equal(w.t, []string{askFrame("1")}, p.frames())
		h.panic("secret")
		require.ErrorIs(w.t, <-asked, mcp.ErrRequestDone)
		require.Equal(w.t, []string{askFrame("1"), unaskFrame("1"), internalError("1")}, p.frames())
		require.Equal(w.t, counts{"admitted": 1, "sent": 1, "panics": 1}, w.counts())
		require.Empty(w.t, w.core.Snapshot().Outbound)
		require.ErrorIs(w.t, context.Cause(h.ctx), mcp.ErrRequestDone, "released for the goroutines that it leaves")
		w.logged("ERROR handler.panic")
	}},
	{state: "P", limits: small, test: func(w *world) {
		// One goroutine of the handler hangs in a send when the handler panics.
		k := w.stepper("work")
		sending := w.inner("work")
		g := w.gate("work", false)
		handler := w.inner("work")
		w.handle("work", func(ctx context.Context, r *Request) (mcp.Result, error) {
			go func() { _, _ = sending(ctx, r) }()
			return handler(ctx, r)
		})
		p := w.connect(true)
		p.call("1", "work")
		unblock := k.fill(p.sink)
		g.next().panic("secret")
		require.ErrorIs(w.t, k.results()[2], mcp.ErrRequestDone)
		unblock()
		require.Equal(w.t, []string{noteFrame(1), noteFrame(2), internalError("1")}, p.frames(), "nothing follows the answer")
		require.Equal(w.t, counts{
			"admitted": 1, "sent": 1, "panics": 1, "notification/after_response": 1, "limit/max_queued_messages": 1,
		}, w.counts())
		w.logged("ERROR handler.panic")
	}},
	{state: "S", test: func(w *world) {
		answers := map[string]func() (mcp.Result, error){
			"marshaler":        func() (mcp.Result, error) { return &hostileResult{do: func() { panic("secret") }}, nil },
			"marshaler-goexit": func() (mcp.Result, error) { return &hostileResult{do: runtime.Goexit}, nil },
			"error":            func() (mcp.Result, error) { return nil, (*hostileError)(nil) },
			"nil":              func() (mcp.Result, error) { return nil, (*mcp.Error)(nil) },
		}
		g := w.gate("work", false)
		p := w.connect(true)
		for _, name := range []string{"marshaler", "marshaler-goexit", "error"} {
			before, n := w.counts(), len(p.frames())
			p.call("1", "work")
			g.next().release <- answers[name]
			require.Equal(w.t, []string{internalError("1")}, p.frames()[n:], name)
			require.Equal(w.t, counts{"admitted": 1, "sent": 1, "panics": 1}, w.counts().since(before), name)
		}
		require.Equal(w.t, 3, w.times("ERROR handler.panic"))
		before := w.counts()
		p.call("2", "work") // not a panic, and not an answer without a body either
		g.next().release <- answers["nil"]
		require.Equal(w.t, internalError("2"), p.frames()[3])
		require.Equal(w.t, counts{"admitted": 1, "sent": 1}, w.counts().since(before))
		w.logged("ERROR handler.error")
	}},
	{state: "goexit", test: func(w *world) {
		g := w.gate("work", false)
		p := w.connect(true)
		p.call("1", "work")
		g.next().release <- func() (mcp.Result, error) { runtime.Goexit(); return nil, nil }
		w.panicked(p, 1)
		w.loggedWith("ERROR handler.panic", "panic=goexit")
		require.Empty(w.t, w.core.Snapshot().Requests, "the request has left")
	}},
	{state: "after-cancel", test: func(w *world) {
		g := w.gate("work", true)
		p := w.connect(true)
		p.call("1", "work")
		h := g.next()
		p.cancel("1", "")
		h.panic("secret")
		require.Empty(w.t, p.frames())
		require.Equal(w.t, "client_cancel", h.cause())
		require.Equal(w.t, counts{
			"admitted": 1, "dropped/cancelled": 1, "cancelled/client_cancel": 1, "panics": 1,
		}, w.counts())
		w.logged("ERROR handler.panic")
	}},
	{state: "notification", test: func(w *world) {
		faults := map[string]func(){"notifications/panic": func() { panic("secret") }, "notifications/goexit": runtime.Goexit}
		w.notified = func(in *Inbound) { faults[in.Method]() }
		g := w.gate("work", false)
		p := w.connect(true)
		p.call("1", "work")
		h := g.next()
		read := make(chan struct{})
		go func() { // the transport's reading goroutine must survive
			defer close(read)
			p.send(`{"jsonrpc":"2.0","method":"notifications/panic"}`)
			p.send(`{"jsonrpc":"2.0","method":"notifications/goexit"}`)
			p.call("2", "work")
		}()
		<-read
		require.Empty(w.t, p.frames(), "never answered")
		require.Equal(w.t, 2, w.times("ERROR notification.panic"))
		require.Empty(w.t, h.cause())
		h.finish("one")
		g.next().finish("two")
		require.ElementsMatch(w.t, []string{resultFrame("1", "one"), resultFrame("2", "two")}, p.frames())
		require.Equal(w.t, counts{"admitted": 2, "sent": 2}, w.counts())
	}},
}

// internalError is all that a client learns of a panic.
func internalError(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"error":{"code":-32603,"message":"internal error"}}`
}

// panicked checks that n requests, with the ids 1 to n, have ended in a panic.
func (w *world) panicked(p *peer, n int) {
	w.t.Helper()
	require.Len(w.t, p.frames(), n)
	require.Equal(w.t, internalError(string(rune('0'+n))), p.frames()[n-1])
	require.Equal(w.t, counts{"admitted": uint64(n), "sent": uint64(n), "panics": uint64(n)}, w.counts())
	require.Equal(w.t, n, w.times("ERROR handler.panic"))
	time.Sleep(time.Minute)
	require.Len(w.t, p.frames(), n)
}

// hostileResult does something while it is encoded.
type hostileResult struct {
	mcp.ResultMeta
	do func()
}

func (h *hostileResult) MarshalJSON() ([]byte, error) {
	h.do()
	return []byte("{}"), nil
}

// hostileError panics when anybody looks at it.
type hostileError struct{ err error }

func (e *hostileError) Error() string { return e.err.Error() }

func (e *hostileError) Unwrap() error { return e.err }
