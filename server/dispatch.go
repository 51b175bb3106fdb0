package server

import (
	"context"
	"fmt"
	"sync"

	"github.com/vitrine-mcp/vitrine/internal/observe"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
)

// A method is one protocol method that the server serves. Features register
// theirs; nothing else knows the list.
type method struct {
	name    string
	eras    era.Set
	handler middleware.Handler
	serving serving
	// targets finds the tool, prompt or resource that a request names; nil for a method
	// without targets. Without a match the method's own handler answers.
	targets func(name string) *target
	// capability is the name of the one that the method belongs to. Without it the server
	// answers that it has nothing for the method. Empty for a method that is always there.
	capability string
	// absent: an option would turn the method on.
	absent bool
	// handshake, beforeInitialize and subscription are explained at session.Route.
	handshake, beforeInitialize, subscription bool

	route *session.Route
	// advertised is the capability's condition; nil is always.
	advertised func() bool
}

// methodTable holds the methods.
type methodTable struct {
	mu     sync.RWMutex
	byName map[string]*method
	// other serves the methods that do not exist, under one label.
	other *session.Route
}

// otherMethod is the label of methods that the server does not know.
const otherMethod = "_OTHER"

// registerTables registers the capabilities, the methods and the notifications of the protocol.
func (s *Server) registerTables() {
	s.capabilities = s.capabilityTable()
	conditions := map[string]func() bool{}
	for _, row := range s.capabilities {
		conditions[row.name] = row.on
	}
	for _, m := range s.protocolMethods() {
		if m.absent {
			continue
		}
		m.advertised = conditions[m.capability]
		s.routeMethod(m)
		if s.setMethod(m) {
			panic(fmt.Errorf("server: the table has the method %q twice", m.name))
		}
	}
	for _, row := range s.protocolNotifications() {
		s.notices.put(row.name, row.handler)
	}
}

// routeMethod wraps the handler of a method. It calls middlewares, which may call the server.
func (s *Server) routeMethod(m *method) {
	m.route = s.newRoute(middleware.NewRoute(m.name, "", ""), m.handler, m.serving)
	m.route.Handshake, m.route.BeforeInitialize = m.handshake, m.beforeInitialize
	m.route.Subscription = m.subscription
}

// setMethod registers a method that has a route. replaced says that there was one of its
// name.
func (s *Server) setMethod(m *method) (replaced bool) {
	s.methods.mu.Lock()
	defer s.methods.mu.Unlock()
	if s.methods.byName == nil {
		s.methods.byName = map[string]*method{}
		s.methods.other = s.newRoute(middleware.NewRoute(otherMethod, "", ""), methodNotFound, serving{})
		s.methods.other.BeforeInitialize = true
	}
	replaced = s.methods.byName[m.name] != nil
	s.methods.byName[m.name] = m
	return replaced
}

func (s *Server) method(name string) *method {
	s.methods.mu.RLock()
	defer s.methods.mu.RUnlock()
	return s.methods.byName[name]
}

func methodNotFound(_ context.Context, req *middleware.Request) (mcp.Result, error) {
	return nil, mcp.NewError(mcp.CodeMethodNotFound, "there is no method %q", cut(req.Method, 64))
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
		if err := era.CheckVersion(in.Version); err != nil {
			return route.Refuse(err)
		}
		if err := era.CheckLogLevel(in); err != nil {
			return route.Refuse(err)
		}
	}
	switch {
	case m == nil:
		return route
	case !m.eras.Has(in.Era):
		return route.Refuse(mcp.NewError(mcp.CodeMethodNotFound, "there is no method %q in this protocol version", m.name))
	case m.advertised != nil && !m.advertised():
		return route.Refuse(mcp.NewError(mcp.CodeMethodNotFound, "the server has nothing for %q", m.name))
	case m.targets != nil && in.HasName:
		if target := m.targets(in.Name); target != nil {
			return target.route
		}
	}
	return route
}

// Notify implements session.Dispatcher. The core has handled the notifications
// that concern it; the others are for those who have registered them.
func (d *dispatcher) Notify(ctx context.Context, in *session.Inbound, sess *session.Session) {
	d.notices.handle(ctx, &Notice{in, sess})
}

// Encode implements session.Dispatcher.
func (d *dispatcher) Encode(dst []byte, r *session.Request, result mcp.Result) (_, rest []byte, err error) {
	dst, rest, err = d.encoder.Encode(dst, r.Era, r.Version, result)
	if err != nil {
		observe.Encoding(r, err)
	}
	return dst, rest, err
}

// cut shortens a peer's text for an error message.
func cut(s string, limit int) string { return session.Printable(s, limit) }
