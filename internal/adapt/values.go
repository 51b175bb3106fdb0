package adapt

import "context"

// A valuesContext has the values of two contexts. Those of values have precedence. SDKs derive the
// contexts of a session from its first HTTP request, and later requests have newer values.
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
