package middleware

import (
	"time"

	"github.com/vitrine-mcp/vitrine/internal/session"
)

// A Route is what a chain is built for: a method, or the use of one registered tool,
// prompt, resource or resource template. Links may set the values that the session core enforces; they
// must not change a route after the chain was built.
type Route struct {
	// Method is the protocol method, such as "tools/call".
	Method string
	// Target is the name of the tool or prompt, and "" for all else: resources have no
	// name that a label could take.
	Target string

	deadline time.Duration
	class    *Class
}

// Deadline returns the route's deadline, or 0 for the server's default.
func (r *Route) Deadline() time.Duration { return r.deadline }

// Class returns the route's concurrency class, or nil.
func (r *Route) Class() *Class { return r.class }

// A Class is a limit on how many handlers run at once, shared by the routes that
// name it. A handler that goes on as a task counts until it returns. Make one with [NewClass].
type Class = session.Class

// NewClass returns a class of which at most limit handlers run at once. Further
// requests wait in the queue; their time there counts against their deadline.
func NewClass(name string, limit int) *Class { return session.NewClass(name, limit) }

// Deadline gives the routes that it wraps a deadline, counted from admission, time
// in the queue included. When it has passed, the caller gets an error at once and
// the handler's context is cancelled with [mcp.ErrDeadline]. The server's maximum
// holds in any case. The innermost of several wins.
func Deadline(d time.Duration) Middleware {
	return func(route *Route, next Handler) Handler {
		if route.deadline == 0 {
			route.deadline = d
		}
		return next
	}
}

// Concurrency puts the routes that it wraps into a concurrency class. The
// innermost of several wins.
func Concurrency(class *Class) Middleware {
	return func(route *Route, next Handler) Handler {
		if route.class == nil {
			route.class = class
		}
		return next
	}
}
