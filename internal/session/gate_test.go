package session

import (
	"context"
	"errors"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// textResult is the result of the scripted handlers.
type textResult struct {
	Text string `json:"text"`
	mcp.ResultMeta
}

// A gate is a handler that a test holds in its hand.
type gate struct {
	w     *world
	calls chan *held
}

// held is one call of a gate's handler.
type held struct {
	ctx     context.Context
	r       *Request
	release chan func() (mcp.Result, error)
	// returned is closed when the handler has returned.
	returned chan struct{}
}

// gate scripts a handler that waits for the test. stubborn ones ignore their
// context; the others return its cause.
func (w *world) gate(name string, stubborn bool) *gate {
	g := &gate{w: w, calls: make(chan *held, 64)}
	w.handle(name, func(ctx context.Context, r *Request) (mcp.Result, error) {
		h := &held{ctx: ctx, r: r, release: make(chan func() (mcp.Result, error), 1), returned: make(chan struct{})}
		defer close(h.returned)
		g.calls <- h
		done := ctx.Done()
		if stubborn {
			done = nil
		}
		select {
		case f := <-h.release:
			return f()
		case <-done:
			return nil, context.Cause(ctx)
		}
	})
	return g
}

// next returns the next call that has reached the gate.
func (g *gate) next() *held {
	g.w.t.Helper()
	g.w.settle()
	select {
	case h := <-g.calls:
		return h
	default:
		g.w.t.Fatal("no handler has reached the gate")
		return nil
	}
}

// empty checks that no handler was called.
func (g *gate) empty() {
	g.w.t.Helper()
	g.w.settle()
	require.Empty(g.w.t, g.calls, "the handler must not be called")
}

func (h *held) finish(text string) {
	h.release <- func() (mcp.Result, error) { return &textResult{Text: text}, nil }
}

func (h *held) fail(err error) { h.release <- func() (mcp.Result, error) { return nil, err } }

func (h *held) panic(v any) { h.release <- func() (mcp.Result, error) { panic(v) } }

// cause returns why the handler's context has ended, or "" if nothing has cancelled it.
func (h *held) cause() string {
	err := context.Cause(h.ctx)
	if err == nil || errors.Is(err, mcp.ErrRequestDone) { // released, not cancelled
		return ""
	}
	if c, ok := mcp.CauseOf(h.ctx); ok {
		return string(c)
	}
	return "not a cause: " + err.Error()
}
