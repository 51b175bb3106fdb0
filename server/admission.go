package server

import (
	"context"

	"github.com/vitrine-mcp/vitrine/internal/session"
)

// admission returns a function that calls the rules in their order, or nil if there are none.
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
