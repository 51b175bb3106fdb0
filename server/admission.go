package server

import (
	"context"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// An AdmissionRule decides whether a request may be admitted; nil lets it in. A
// [*mcp.Refusal] says how it is refused, any other error refuses it with the status 403
// and is for the operator alone. It must be safe for concurrent use and quick: it runs
// where messages are read. If it panics the request is refused.
type AdmissionRule func(ctx context.Context, req *middleware.Request) error

// WithAdmission adds rules that are asked, one after the other, about each request before
// it takes a slot or a place in a queue, before its response is begun, and before any
// middleware runs. The request has its principal; its params are known and not checked.
// What a rule refuses counts as rejected with the reason "refused", by the Reason and By of
// its refusal, and never as an error of the service.
func WithAdmission(rules ...AdmissionRule) Option {
	return optionFunc(func(c *config) { c.admission = append(c.admission, rules...) })
}

// admission asks the rules in their order; nil without any.
func admission(rules []AdmissionRule) func(context.Context, *session.Request) error {
	if len(rules) == 0 {
		return nil
	}
	return func(ctx context.Context, r *session.Request) error {
		req := newRequest(r, registrationOf(r.Route))
		for _, rule := range rules {
			if err := rule(ctx, &req.Request); err != nil {
				return err
			}
		}
		return nil
	}
}

// registrationOf returns the registration behind a route of the core.
func registrationOf(route *session.Route) middleware.Route {
	if registration, ok := route.Registration.(*middleware.Route); ok {
		return *registration
	}
	return middleware.NewRoute(route.Series.Method, route.Series.Target, route.Series.Target)
}
