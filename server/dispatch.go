package server

import (
	"context"
	"fmt"

	"github.com/vitrine-mcp/vitrine/internal/observe"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
)

// otherMethod is the label of methods that the server does not know.
const otherMethod = "_OTHER"

// registerTables registers the capabilities, the methods and the notifications of the protocol.
func (s *Server) registerTables() {
	s.methods.byName = map[string]*method{}
	s.methods.other = s.routes.route(middleware.NewRoute(otherMethod, "", ""), methodNotFound, serving{})
	s.methods.other.BeforeInitialize = true
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
		if s.methods.put(m) {
			panic(fmt.Errorf("server: the table has the method %q twice", m.name))
		}
	}
	for _, row := range s.protocolNotifications() {
		s.notices.put(row.name, noticeHandler{handle: row.handler})
	}
}

// routeMethod wraps the handler of a method. It calls middlewares, which may call the server.
func (s *Server) routeMethod(m *method) {
	m.route = s.routes.route(middleware.NewRoute(m.name, "", ""), m.handler, m.serving)
	m.route.Handshake, m.route.BeforeInitialize = m.handshake, m.beforeInitialize
	m.route.Subscription, m.route.Control = m.subscription, m.control
	m.route.Registration = &registration{Route: middleware.NewRoute(m.name, "", ""), method: m}
}

func methodNotFound(_ context.Context, req *middleware.Request) (mcp.Result, error) {
	return nil, mcp.NewError(mcp.CodeMethodNotFound, "there is no method %q", cut(req.Method, 64))
}

// dispatcher implements session.Dispatcher for a server.
type dispatcher Server

// Route implements session.Dispatcher.
func (d *dispatcher) Route(in *session.Inbound, _ *session.Session) *session.Route {
	s := (*Server)(d)
	m := s.methods.get(in.Method)
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

// Notify implements session.Dispatcher.
func (d *dispatcher) Notify(ctx context.Context, in *session.Inbound, sess *session.Session) {
	d.notices.handle(ctx, &Notice{d.core, in, sess})
}

// Encode implements session.Dispatcher.
func (d *dispatcher) Encode(dst []byte, r *session.Request, result mcp.Result) (_, rest []byte, err error) {
	dst, rest, err = d.encoder.Encode(dst, r.Era, r.Version, result)
	if err != nil {
		observe.Encoding(r, err)
	}
	return dst, rest, err
}
