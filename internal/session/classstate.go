package session

import (
	"slices"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// UseClass has snapshots show a class. It must be called before the first request for it.
func (c *Core) UseClass(class *Class) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.classes, class) {
		c.classes = append(c.classes, class)
	}
}

// usedClasses returns a private copy of the classes.
func (c *Core) usedClasses() []*Class {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.classes)
}

// stateOf describes a class at this moment. All of its requests that wait count, whatever they wait for.
func (c *Core) stateOf(class *Class) mcp.ClassState {
	u := class.pool.Usage()
	return mcp.ClassState{Name: class.Name, Limit: u.Size, InUse: u.Used, Queued: c.waiting.LenOf(class) + int(class.resuming.Load())}
}

// classState describes the class of the request, or is nil if there is none.
func (r *Request) classState() *mcp.ClassState {
	if r.Route.Class == nil {
		return nil
	}
	state := r.core.stateOf(r.Route.Class)
	return &state
}

// queueFull is the answer to a request that finds no place in the queue, has lost it, or has waited for too long. If it needs a
// slot of a class, it names the class.
func (r *Request) queueFull(limit string) *mcp.Error {
	state := r.classState()
	if state == nil {
		return Overload(limit)
	}
	if state.InUse >= state.Limit {
		r.core.ledger.limitReached(ClassPrefix + state.Name)
	}
	return mcp.NewError(mcp.CodeInternalError, "the server is overloaded: %s (%d) is reached: class %q has %d of %d slots in use, and %d requests wait for it",
		limit, r.core.queueSize(limit), state.Name, state.InUse, state.Limit, state.Queued).
		WithData(mcp.ErrorData{Reason: string(mcp.RejectOverload), Limit: limit, Class: state})
}

// queueSize returns the bound that has the name of a limit of [Request.queue].
func (c *Core) queueSize(limit string) int {
	switch limit {
	case limits.NameQueueSession:
		return c.limits.MaxQueuePerSession
	case limits.NameQueueWait:
		return c.limits.MaxQueueWait
	}
	return c.limits.MaxQueue
}

// logClass are the fields by which logs describe the class of a request that waits; none if it has no
// class.
func logClass(state *mcp.ClassState) []any {
	if state == nil {
		return nil
	}
	return []any{"class_limit", state.Limit, "class_in_use", state.InUse, "class_queued", state.Queued}
}
