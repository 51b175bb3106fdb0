package server

import (
	"context"
	"sync"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// A method is one protocol method that the server serves. Features register
// theirs; nothing else knows the list.
type method struct {
	name    string
	eras    eras
	handler middleware.Handler
	// targets finds the tool (or prompt) that a request names; nil for a method
	// without targets. Without a match the method's own handler answers.
	targets func(name string) *target
	// advertised tells whether the capability that the method belongs to is on; nil for
	// a method that is always there.
	advertised func() bool
	// handshake and beforeInitialize are explained at session.Route.
	handshake, beforeInitialize bool

	route *session.Route
}

// A target is what a request can name: a tool (or a prompt).
type target struct {
	route *session.Route
	// params are the arguments that modern clients repeat in HTTP headers.
	params []paramHeader
}

// routeOf returns the route of a request to the target.
func (t *target) routeOf(in *session.Inbound) *session.Route {
	if len(t.params) > 0 && in.Era == mcp.Modern && in.Header != nil {
		if err := checkParams(t.params, in); err != nil {
			return t.route.Refuse(err)
		}
	}
	return t.route
}

// eras says in which eras a method exists.
type eras uint8

const (
	inLegacy eras = 1 << mcp.Legacy
	inModern eras = 1 << mcp.Modern
	inBoth        = inLegacy | inModern
)

// methodTable holds the methods.
type methodTable struct {
	mu     sync.RWMutex
	byName map[string]*method
	// other serves the methods that do not exist, under one label.
	other *session.Route
}

// otherMethod is the label of methods that the server does not know.
const otherMethod = "_OTHER"

// handle registers a method.
func (s *Server) handle(m *method) {
	m.route = s.newRoute(m.name, "", m.handler)
	m.route.Handshake, m.route.BeforeInitialize = m.handshake, m.beforeInitialize
	s.methods.mu.Lock()
	defer s.methods.mu.Unlock()
	if s.methods.byName == nil {
		s.methods.byName = map[string]*method{}
		s.methods.other = s.newRoute(otherMethod, "", methodNotFound)
		s.methods.other.BeforeInitialize = true
	}
	s.methods.byName[m.name] = m
}

func (s *Server) method(name string) *method {
	s.methods.mu.RLock()
	defer s.methods.mu.RUnlock()
	return s.methods.byName[name]
}

// newRoute wraps a handler in the server's chain, once.
func (s *Server) newRoute(name, target string, h middleware.Handler, links ...middleware.Middleware) *session.Route {
	mr := &middleware.Route{Method: name, Target: target}
	h = s.chain(mr, middleware.Chain(links...)(mr, h))
	return &session.Route{
		Series:   s.core.Series(name, target),
		Deadline: mr.Deadline(),
		Class:    mr.Class(),
		Handle: func(ctx context.Context, r *session.Request) (mcp.Result, error) {
			return h(ctx, middleware.NewRequest(r))
		},
	}
}

func methodNotFound(_ context.Context, req *middleware.Request) (mcp.Result, error) {
	return nil, mcp.NewError(mcp.CodeMethodNotFound, "there is no method %q", cut(req.Method(), 64))
}

// dispatcher shows the server to the session core.
type dispatcher Server

// Route implements session.Dispatcher.
func (d *dispatcher) Route(in *session.Inbound, _ *session.Session) *session.Route {
	s := (*Server)(d)
	m := s.method(in.Method)
	route := s.methods.other
	if m != nil {
		route = m.route
	}
	if in.Era == mcp.Modern {
		if err := checkVersion(in.Version); err != nil {
			return route.Refuse(err)
		}
	}
	switch {
	case m == nil:
		return route
	case m.eras&(1<<in.Era) == 0:
		return route.Refuse(mcp.NewError(mcp.CodeMethodNotFound, "there is no method %q in this protocol version", m.name))
	case m.advertised != nil && !m.advertised():
		return route.Refuse(mcp.NewError(mcp.CodeMethodNotFound, "the server has nothing for %q", m.name))
	case m.targets != nil && in.HasName:
		if target := m.targets(in.Name); target != nil {
			return target.routeOf(in)
		}
	}
	return route
}

// Notify implements session.Dispatcher. The core has handled the notifications
// that concern it; the others are for features that register them.
func (d *dispatcher) Notify(context.Context, *session.Inbound, *session.Session) {}

// Encode implements session.Dispatcher.
func (d *dispatcher) Encode(dst []byte, r *session.Request, result mcp.Result) ([]byte, error) {
	return (*Server)(d).encode(dst, r.Era, r.Version, result)
}

// cut shortens a peer's text for an error message.
func cut(s string, limit int) string { return session.Printable(s, limit) }
