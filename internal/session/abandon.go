package session

import (
	"errors"
	"fmt"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// ErrAbandoned is matched by the errors that name the handlers which ignored
// their cancelled context and were left behind.
var ErrAbandoned = errors.New("mcp: handlers were abandoned")

// watchUnwind looks after a cancelled handler: it warns when the handler has not
// returned within the clean-up grace, and abandons it after the abandon grace.
func (c *Core) watchUnwind(r *Request) {
	if !r.verdict.started() {
		return
	}
	r.unwind.Store(time.AfterFunc(c.limits.CleanupGrace, func() {
		if r.hasReturned() {
			return
		}
		c.logger.WarnContext(r.ctx, "handler.slow_unwind", r.LogAttrs()...)
		r.unwind.Store(time.AfterFunc(c.limits.AbandonGrace-c.limits.CleanupGrace, func() { c.abandon(r) }))
	}))
}

func (r *Request) hasReturned() bool {
	r.lane.mu.Lock()
	defer r.lane.mu.Unlock()
	return r.returned
}

// abandon counts a handler that has not returned; false if it has.
func (c *Core) abandon(r *Request) bool {
	if !r.verdict.started() || !r.hold() {
		return false
	}
	defer r.release()
	cause := mcp.CauseServerShutdown
	if err, _ := r.Cancellation(); err != nil {
		cause = err.Cause
	}
	r.lane.mu.Lock()
	returned, first := r.returned, !r.returned && !r.abandoned
	if first {
		r.abandoned = true
		r.lane.of(r.Route.Series).abandoned[causeIndex(cause)]++
	}
	r.lane.mu.Unlock()
	if first {
		c.logger.WarnContext(r.ctx, "handlers.abandoned", append(r.LogAttrs(), "cause", cause)...)
		c.observer.Abandoned(r)
	}
	return !returned
}

// abandonedError names the handlers that were left behind; nil if there are none.
func abandonedError(left []string) error {
	if len(left) == 0 {
		return nil
	}
	errs := []error{fmt.Errorf("%w: %d", ErrAbandoned, len(left))}
	for _, handler := range left {
		errs = append(errs, errors.New(handler))
	}
	return errors.Join(errs...)
}

// describe names a handler that was left behind.
func (r *Request) describe() string {
	return fmt.Sprintf("%s %s (id %s, %v)",
		r.Route.Series.Method, r.Route.Series.Target, r.ID, time.Since(r.arrived).Round(time.Millisecond))
}
