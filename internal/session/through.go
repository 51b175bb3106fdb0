package session

import "context"

// through says that a message has come through this replica, for another one. ctx has the span of the message.
func (c *Core) through(ctx context.Context) *Through {
	t := &Through{Replica: c.elsewhere.Replica()}
	if ctx != nil {
		c.tell("TraceOf", func(o Observer) { t.Trace = o.TraceOf(ctx) })
	}
	return t
}

// cameThrough tells the observer that a message about a request has come through another replica. r and t may
// be nil.
func (c *Core) cameThrough(r *Request, kind string, t *Through) {
	if r != nil && t != nil {
		c.tell("CameThrough", func(o Observer) { o.CameThrough(r, kind, *t) })
	}
}
