package server

import (
	"context"
	"slices"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
	"github.com/vitrine-mcp/vitrine/server/internal/notify"
)

// A question is a request that is not admitted yet, with what the policies are told of its caller. It
// has room for the operation and the decision about it, so that a decision takes one object.
type question struct {
	ctx       context.Context
	req       *session.Request
	caller    caller
	operation auth.Operation
	decision  auth.Decision
}

// authorize decides whether the caller of a request may do what it asks. The error challenges the
// caller. A request for something that the caller may not see gets the route of requests for what
// does not exist.
func (s *Server) authorize(r *session.Request) error {
	if s.reserve != nil {
		if err := s.reserve(r); err != nil {
			return err
		}
	}
	if !s.access.asked.Load() || r.Route.Refused {
		return nil
	}
	reg, known := r.Route.Registration.(*registration)
	if !known {
		return nil
	}
	q := &question{req: r, ctx: context.Background(), caller: s.access.callerOf(r.Inbound, r.Session())}
	if s.access.restricts { // scopes need no context
		r.GiveTurn() // a policy may wait
		admitting := r.Admitting()
		defer admitting.End()
		q.ctx = admitting
	}
	switch {
	case r.Method == mcp.MethodResourcesRead:
		return s.authorizeRead(q)
	case reg.target != nil:
		return s.authorizeCall(q, reg.target)
	case reg.method != nil && reg.method.own && s.access.restricts:
		return s.authorizeMethod(q)
	}
	return s.authorizeUses(q)
}

// authorizeCall decides about a request for a tool or a prompt.
func (s *Server) authorizeCall(q *question, to *target) error {
	q.operation = to.operation(q.req.Name)
	q.operation.Arguments = q.req.Arguments
	q.decision = s.access.decide(q.ctx, &q.caller, &q.operation)
	return s.settleAccess(q, &q.decision, s.methods.get(q.req.Method).route)
}

// authorizeMethod decides about a request for a method of the program.
func (s *Server) authorizeMethod(q *question) error {
	q.operation.Method = q.req.Method
	q.decision = s.access.decide(q.ctx, &q.caller, &q.operation)
	return s.settleAccess(q, &q.decision, s.methods.other)
}

// authorizeRead decides about a request to read a URI. The first resource or template serves it that
// the caller may see. What the request was routed to may have been removed since.
func (s *Server) authorizeRead(q *question) error {
	if !q.req.HasName {
		return nil
	}
	unknown := s.methods.get(q.req.Method).route
	to, d := s.visible(q.ctx, &q.caller, q.req.Name)
	if to == nil && d == nil { // nothing has this URI
		if q.req.Route != unknown {
			q.req.Reroute(unknown)
		}
		return nil
	}
	if to != nil && to.route != q.req.Route {
		q.req.Reroute(to.route)
	}
	return s.settleAccess(q, d, unknown)
}

// settleAccess notes a decision and applies it. unknown is the route of requests for what does not
// exist.
func (s *Server) settleAccess(q *question, d *auth.Decision, unknown *session.Route) error {
	s.access.note(q.ctx, q.req, d)
	switch {
	case needsScopes(d):
		return s.access.challenge(q.caller.principal, d)
	case denies(d):
		q.req.Hide(unknown)
	}
	return nil
}

// authorizeUses decides about requests of the protocol that name items in their params. If one needs
// scopes the caller is challenged. Their handlers answer as if items did not exist that the caller may
// not see.
func (s *Server) authorizeUses(q *question) error {
	var decided []auth.Decision
	switch q.req.Method {
	case mcp.MethodCompletionComplete:
		var params struct {
			Ref mcp.CompletionReference `json:"ref"`
		}
		if wire.Unmarshal(q.req.Params, &params) != nil {
			return nil // the handler says what is wrong
		}
		if to := s.referenced(params.Ref); to != nil {
			decided = append(decided, s.decideListed(q.ctx, &q.caller, to))
		}
	case mcp.MethodResourcesSubscribe:
		decided = s.decideURIs(q, q.req.Name)
	case mcp.MethodSubscriptionsListen:
		most := s.core.Limits().MaxResourceSubscriptions
		if uris := notify.ResourcesOf(q.req.Params, most); len(uris) <= most {
			decided = s.decideURIs(q, uris...)
		}
	}
	if len(decided) == 0 {
		return nil
	}
	d := strictest(decided)
	s.access.note(q.ctx, q.req, &d)
	if needsScopes(&d) {
		return s.access.challenge(q.caller.principal, &d)
	}
	return nil
}

// decideURIs decides about the use of URIs that exist.
func (s *Server) decideURIs(q *question, uris ...string) (decided []auth.Decision) {
	for _, uri := range uris {
		if _, d := s.visible(q.ctx, &q.caller, uri); d != nil {
			decided = append(decided, *d)
		}
	}
	return decided
}

// strictest returns the decision about several items that are used at once: that the caller needs the
// scopes of all that it may see, or else the first one that does not simply allow.
func strictest(decided []auth.Decision) auth.Decision {
	d := decided[0]
	for _, other := range decided[1:] {
		switch {
		case needsScopes(&other) && needsScopes(&d):
			for _, scope := range other.Scopes {
				if !slices.Contains(d.Scopes, scope) {
					d.Scopes = append(slices.Clip(d.Scopes), scope)
				}
			}
		case needsScopes(&other), d.Effect == auth.Allow && other.Effect != auth.Allow:
			d = other
		}
	}
	return d
}

// visible returns the first target that serves a URI and that the caller may see, and the decision
// about it. Without one the target is nil, and the decision is that about the first target that the
// caller may not see; nil if there is none either.
func (s *Server) visible(ctx context.Context, c *caller, uri string) (to *target, d *auth.Decision) {
	for to := range s.serving(uri) {
		op := to.operation(uri)
		now := s.access.decide(ctx, c, &op)
		if !denies(&now) {
			return to, &now
		}
		if d == nil {
			d = &now
		}
	}
	return nil, d
}

// decideListed decides whether the caller may see an item.
func (s *Server) decideListed(ctx context.Context, c *caller, to *target) auth.Decision {
	op := new(auth.Operation)
	to.describeListed(op)
	return s.access.decide(ctx, c, op)
}

// shows reports whether the caller may see an item. It needs an operation that has what is known of the
// caller, and can use it again for the next item, because a list has many (BenchmarkFilteredList).
func (s *Server) shows(ctx context.Context, c *caller, to *target, op *auth.Operation) bool {
	to.describeListed(op)
	d := s.access.decideFilled(ctx, c.principal, op)
	if d.Err != nil {
		s.core.LogDecision(ctx, &d, func() []any { return []any{"method", to.op.Method, "listed", to.op.Kind} })
	}
	return !denies(&d)
}

// callerOf describes the caller of a request that is served.
func (s *Server) callerOf(req *middleware.Request) *caller {
	in := era.CoreOf(req)
	c := s.access.callerOf(in.Inbound, in.Session())
	return &c
}
