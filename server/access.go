package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/observe"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// access decides what callers may do. Lists, calls and notifications ask the same function.
type access struct {
	core      *session.Core
	hierarchy auth.Hierarchy
	own       []auth.Policy // of the program
	// policy has the policies of the program and those of the operator, and scoped the scopes of items before these.
	policy, scoped auth.Policy
	// restricts says that there are policies, which may hide items.
	restricts bool
	// asked says that something needs a decision: there are policies, or an item needs scopes.
	asked atomic.Bool
}

// setUp sets what callers need. It must be called before the first registration.
func (a *access) setUp(core *session.Core, cfg *config) {
	a.core, a.hierarchy, a.own = core, cfg.hierarchy, cfg.policies
	a.combine(nil)
}

// combine makes one policy of all.
func (a *access) combine(operators []auth.Policy) {
	var policies []auth.Policy
	for _, policy := range slices.Concat(a.own, operators) {
		policies = append(policies, auth.Consistent(policy)) // no hidden item can be used
	}
	a.policy = auth.Combine(policies...)
	a.scoped = auth.Combine(append([]auth.Policy{auth.Scopes(a.hierarchy)}, policies...)...)
	if a.restricts = len(policies) > 0; a.restricts {
		a.asked.Store(true)
	}
}

// A caller is who wants to do something, for the questions to the policies.
type caller struct {
	principal                           *auth.Principal
	transport, address, client, version string
}

// callerOf describes the sender of a message. sess may be nil.
func (a *access) callerOf(in *session.Inbound, sess *session.Session) (c caller) {
	if in.Conn != nil {
		c.principal, c.transport, c.address = in.Conn.Principal, in.Conn.Transport, in.Conn.RemoteAddr
	}
	if a.restricts { // scopes do not depend on the client
		c.client, c.version = a.core.ClientOf(in, sess)
	}
	return c
}

// fill adds what is known of the caller to an operation.
func (c *caller) fill(op *auth.Operation) *auth.Operation {
	op.Transport, op.Address, op.ClientName, op.ClientVersion = c.transport, c.address, c.client, c.version
	return op
}

// decide decides about an operation.
func (a *access) decide(ctx context.Context, c *caller, op *auth.Operation) auth.Decision {
	return a.decideFilled(ctx, c.principal, c.fill(op))
}

// decideFilled decides about an operation that has what is known of the caller.
func (a *access) decideFilled(ctx context.Context, p *auth.Principal, op *auth.Operation) auth.Decision {
	policy := a.scoped
	if len(op.Scopes) == 0 { // these allow it then, which need not be asked for each item of a list
		policy = a.policy
	}
	return policy.Decide(ctx, p, op)
}

// denies reports whether a decision hides what it is about.
func denies(d *auth.Decision) bool { return !d.Passes() && d.Effect != auth.NeedScopes }

// needsScopes reports whether the caller must be challenged.
func needsScopes(d *auth.Decision) bool { return !d.Passes() && d.Effect == auth.NeedScopes }

// note counts, logs and records the decision about a request.
func (a *access) note(ctx context.Context, r *session.Request, d *auth.Decision) {
	if !a.restricts && d.Rule == "" {
		return // nothing needs scopes, and there is no policy
	}
	r.SetDecision(d)
	a.core.CountDecision(d)
	observe.Decided(r, d)
	a.core.LogDecision(ctx, d, r.LogAttrs)
}

// challenge returns the refusal of a caller that needs scopes.
func (a *access) challenge(p *auth.Principal, d *auth.Decision) *mcp.Refusal {
	challenger, _ := a.core.Authenticator().(auth.Challenger)
	return d.Refusal(p, challenger)
}

// isScope reports whether a text is a scope (RFC 6749, section 3.3).
func isScope(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || r == '"' || r == '\\'
	})
}

// A need is what a registration demands of callers.
type need struct {
	scopes []string
	// scopesFor returns what a URI needs in addition; nil is nothing.
	scopesFor func(uri string) []string
}

// check returns an error for what is no scope.
func (n need) check() error {
	for _, s := range n.scopes {
		if !isScope(s) {
			return fmt.Errorf("%q is no scope: a scope is one or more printable ASCII characters without space, quote and backslash", cut(s, 128))
		}
	}
	return nil
}

// is reports whether anything is needed.
func (n need) is() bool { return len(n.scopes) > 0 || n.scopesFor != nil }

// of returns the scopes for a URI, which is "" while it is unknown.
func (n need) of(uri string) []string {
	if n.scopesFor == nil || uri == "" {
		return n.scopes
	}
	return append(slices.Clip(n.scopes), n.scopesFor(uri)...)
}
