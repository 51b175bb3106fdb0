// Package adapt has what the adapters for other servers share: it records their requests
// with package telemetry, finds out why a request was cancelled, runs our middlewares, and
// contains panics. It knows no SDK.
package adapt

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// unwindTime is how long [Adapter.Shutdown] waits for the handlers that it has cancelled.
const unwindTime = time.Second

// maxReason bounds the reason of a client for a cancellation, in bytes.
const maxReason = 256

// An Adapter is what all requests of one server share. It is safe for concurrent use.
type Adapter struct {
	Telemetry *telemetry.Telemetry
	chain     middleware.Middleware // nil: there are no middlewares

	mu      sync.Mutex // guards the rest
	calls   map[*Call]struct{}
	byID    map[callID]*Call
	closing bool
	idle    chan struct{} // closed when there is no call any more; made by Shutdown
}

// New returns an adapter. The first middleware is the outermost.
func New(t *telemetry.Telemetry, middlewares ...middleware.Middleware) *Adapter {
	a := &Adapter{Telemetry: t, calls: map[*Call]struct{}{}, byID: map[callID]*Call{}}
	if len(middlewares) > 0 {
		a.chain = middleware.Chain(middlewares...)
	}
	return a
}

// Chained reports whether there are middlewares: without them nothing needs to be
// converted.
func (a *Adapter) Chained() bool { return a.chain != nil }

// A callID identifies a request that a client may cancel: ids are unique within a
// session or a connection.
type callID struct {
	scope any
	id    string
}

// Cancelling notes that the client has asked to cancel a request, with its reason. It
// cancels nothing, because the SDK still has to decide whether the sender may.
func (a *Adapter) Cancelling(scope any, id mcp.ID, reason string) {
	if scope == nil || id.IsZero() {
		return
	}
	a.mu.Lock()
	c := a.byID[callID{scope, id.Key()}]
	a.mu.Unlock()
	if c != nil {
		c.asked.CompareAndSwap(nil, &mcp.CancelError{
			Cause: mcp.CauseClientCancel, Detail: logline.Printable(reason, maxReason),
		})
	}
}

func (a *Adapter) enter(c *Call) (admitted bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls[c] = struct{}{}
	return !a.closing
}

func (a *Adapter) identify(c *Call) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byID[c.id] == nil { // else the id is in use, and the SDK has to say so
		a.byID[c.id] = c
	}
}

func (a *Adapter) leave(c *Call) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.calls, c)
	if a.byID[c.id] == c {
		delete(a.byID, c.id)
	}
	if len(a.calls) == 0 && a.idle != nil {
		close(a.idle)
		a.idle = nil
	}
}

// Closing reports whether [Adapter.Shutdown] was called.
func (a *Adapter) Closing() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.closing
}

// Shutdown refuses new requests, ends subscriptions, and waits for the running handlers
// until ctx ends. Then it cancels them with the cause server_shutdown, and gives them one
// more second. It returns an error if some are left after that. Only its first call does
// so; later ones return nil at once.
func (a *Adapter) Shutdown(ctx context.Context) error {
	a.mu.Lock()
	if a.closing {
		a.mu.Unlock()
		return nil
	}
	a.closing = true
	idle := make(chan struct{})
	if len(a.calls) == 0 {
		close(idle)
	} else {
		a.idle = idle
	}
	for c := range a.calls {
		if c.subscribed.Load() {
			c.cancel(mcp.ErrServerShutdown)
		}
	}
	a.mu.Unlock()
	if endsWithin(ctx, idle) {
		return nil
	}
	a.mu.Lock()
	for c := range a.calls {
		c.cancel(mcp.ErrServerShutdown)
	}
	a.mu.Unlock()
	unwind, cancel := context.WithTimeout(context.Background(), unwindTime)
	defer cancel()
	if endsWithin(unwind, idle) {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return fmt.Errorf("%d handlers still run, %v after they were cancelled", len(a.calls), unwindTime)
}

// endsWithin reports whether done is closed before ctx ends.
func endsWithin(ctx context.Context, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}
