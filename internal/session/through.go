package session

import (
	"context"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Through says through which replica a message came that concerns something here.
type Through struct {
	Replica string `json:"replica"`
	// Trace is the trace context that the message has there, or "".
	Trace string `json:"trace,omitempty"`
}

// What comes through another replica.
const (
	ThroughCancel = "cancel"
	ThroughAnswer = "answer"
	ThroughEnd    = "session_end"
)

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

// endThrough ends the session because its client has deleted it through another replica, or an operator has
// ended it there. t may be nil.
func (s *Session) endThrough(t *Through) {
	for _, r := range s.requests() {
		s.core.cameThrough(r, ThroughEnd, t)
	}
	s.Close(mcp.CauseSessionDelete)
}
