package session

import "github.com/vitrine-mcp/vitrine/mcp"

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

// logClass are the fields by which logs describe the class of a request that waits; none if it has no
// class.
func logClass(state *mcp.ClassState) []any {
	if state == nil {
		return nil
	}
	return []any{"class_limit", state.Limit, "class_in_use", state.InUse, "class_queued", state.Queued}
}
