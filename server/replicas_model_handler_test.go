package server_test

import (
	"context"
	"sync"

	"github.com/vitrine-mcp/vitrine/server"
)

// A modelHandler is the handler of one call of the tool work. It does what it is told.
type modelHandler struct {
	key    string
	home   *modelReplica // where it runs
	orders chan string

	mu      sync.Mutex // guards the rest
	runs    int
	said    int
	asking  bool
	asked   int
	heard   []string
	unasked error // of a question
	ended   bool
	cause   error
}

// newHandler returns the handler of a call that a replica gets.
func (w *modelWorld) newHandler(key string, at *modelReplica) *modelHandler {
	h := &modelHandler{key: key, home: at, orders: make(chan string, 1)}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handlers[key] = h
	return h
}

// run is the handler.
func (h *modelHandler) run(ctx context.Context, call *server.Call) (string, error) {
	h.mu.Lock()
	h.runs++
	h.mu.Unlock()
	for {
		select {
		case order := <-h.orders:
			switch order {
			case "say":
				h.mu.Lock()
				h.said++
				said := h.said
				h.mu.Unlock()
				_ = call.Progress(float64(said), 0, "")
			case "ask":
				raw, err := call.CallClient(ctx, "roots/list", nil)
				h.mu.Lock()
				h.asking = false
				if err != nil && ctx.Err() == nil {
					h.unasked = err
				}
				if err == nil {
					h.heard = append(h.heard, string(raw))
				}
				h.mu.Unlock()
			case "finish":
				h.end(nil)
				return "done " + h.key, nil
			}
		case <-ctx.Done():
			h.end(context.Cause(ctx))
			return "", context.Cause(ctx)
		}
	}
}

func (h *modelHandler) end(cause error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended, h.asking, h.cause = true, false, cause
}

// idle reports whether the handler waits for an order.
func (h *modelHandler) idle() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.runs > 0 && !h.ended && !h.asking && len(h.orders) == 0 && !h.home.killed
}

func (h *modelHandler) running() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.runs > 0 && !h.ended && !h.home.killed
}

// order has the handler do something.
func (h *modelHandler) order(what string) { h.orders <- what }
