// Package adapt is shared by the adapters for other SDKs. It records requests with package telemetry,
// finds the causes of cancellations, runs our middlewares, and contains panics. It depends on no
// SDK.
package adapt

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// unwindTime is how long [Adapter.Shutdown] waits for cancelled handlers.
const unwindTime = time.Second

// maxReason bounds the client's reason for a cancellation, in bytes.
const maxReason = 256

// An Adapter is shared by all requests of one server. It is safe for concurrent use.
type Adapter struct {
	Telemetry *telemetry.Telemetry
	// UnknownSession is the text of the SDK for a session that does not exist.
	UnknownSession string
	// ClientOf returns how the client of a session describes itself. May be nil.
	ClientOf func(sessionID string) *mcp.Implementation

	chain middleware.Middleware // nil: there are no middlewares
	guard guard

	mu      sync.Mutex // guards the rest
	calls   map[*Call]struct{}
	byID    map[callID]*Call
	closing bool
	idle    chan struct{} // closed when there are no calls; made by Shutdown
}

// New returns an adapter. The first middleware is the outermost.
func New(t *telemetry.Telemetry, middlewares ...middleware.Middleware) *Adapter {
	a := &Adapter{Telemetry: t, calls: map[*Call]struct{}{}, byID: map[callID]*Call{}}
	if len(middlewares) > 0 {
		a.chain = middleware.Chain(middlewares...)
	}
	return a
}

// Chained reports whether middlewares or policies see the results of a method. Otherwise results need
// not be converted.
func (a *Adapter) Chained(method string) bool {
	return a.chain != nil || a.Authorizes() && slices.Contains(lists, method)
}

// A callID identifies a request. Ids are unique within a session or a connection.
type callID struct {
	scope any
	id    string
}

// Cancelling records the client's cancellation of a request with its reason. It does not cancel the
// request, because the SDK decides whether the client may.
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
	if a.byID[c.id] == nil { // else the id is in use, and the SDK rejects the request
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

// Shutdown refuses new requests, ends subscriptions, and waits for the running handlers until ctx
// ends. Then it cancels them with the cause server_shutdown and waits one more second. It returns
// an error if handlers still run after that. Later calls do nothing and return nil.
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
