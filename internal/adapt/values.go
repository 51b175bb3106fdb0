package adapt

import "context"

// A valuesContext also has the values of another context, which come first: an SDK derives
// the contexts of a session from that of the session's first HTTP request, and the later
// ones know better.
type valuesContext struct {
	context.Context
	values context.Context
}

// Value implements [context.Context].
func (c valuesContext) Value(key any) any {
	if v := c.values.Value(key); v != nil {
		return v
	}
	return c.Context.Value(key)
}
