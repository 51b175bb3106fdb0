package session

import (
	"context"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// An Admitting is the context for what is asked before a request is admitted. It ends at the deadline
// of the request, whose own alarm is set when it is admitted.
//
// Most rules never wait. So it has no timer before something asks for its end. The plain version is
// context.WithDeadlineCause, which makes a timer and nine objects (BenchmarkCost).
type Admitting struct {
	context.Context // of the request
	deadline        time.Time

	mu     sync.Mutex      // guards the rest
	timed  context.Context // nil as long as nothing has asked for the end
	cancel context.CancelFunc
	over   bool
}

// Admitting returns the context for the rules of admission. The caller must call its End.
func (r *Request) Admitting() *Admitting {
	return &Admitting{Context: r.ctx, deadline: r.Deadline()}
}

// End ends the context, as the function does that context.WithDeadline returns.
func (a *Admitting) End() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	if a.timed != nil {
		a.cancel()
	}
}

// ending returns the context that ends at the deadline.
func (a *Admitting) ending() context.Context {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.timed == nil {
		a.timed, a.cancel = context.WithDeadlineCause(a.Context, a.deadline, mcp.ErrDeadline)
		if a.over {
			a.cancel()
		}
	}
	return a.timed
}

// Deadline implements [context.Context], as the following methods do.
func (a *Admitting) Deadline() (time.Time, bool) { return a.deadline, true }

func (a *Admitting) Done() <-chan struct{} { return a.ending().Done() }
func (a *Admitting) Err() error            { return a.ending().Err() }

// Value returns a value of the request. The package context finds the cause of an end by a value.
func (a *Admitting) Value(key any) any { return a.ending().Value(key) }
