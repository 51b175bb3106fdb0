package session

import (
	"context"
	"runtime/debug"
	"strings"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// byAuthenticator says who refuses a caller if the authenticator does not say so itself.
const byAuthenticator = "authenticator"

// SetAuthenticator replaces the authenticator. It must be called before the first message.
func (c *Core) SetAuthenticator(a auth.Authenticator) { c.authenticator = a }

// Authenticator returns the authenticator, or nil.
func (c *Core) Authenticator() auth.Authenticator { return c.authenticator }

// Authenticate returns the principal of a caller, or nil if the server has no authenticator. A
// caller with a refusal must not be served; the refusal is counted and logged. If the user's
// function panics, the caller is refused. The credentials (Authorization) are removed from the
// header of the caller: nothing after the authenticator can log them or pass them on.
func (c *Core) Authenticate(ctx context.Context, caller auth.Caller) (*auth.Principal, *mcp.Refusal) {
	if c.authenticator == nil {
		return nil, nil
	}
	p, refused := c.authenticate(ctx, &auth.Caller{
		Transport: caller.Transport, Header: caller.Header, RemoteAddr: caller.RemoteAddr, PeerAddr: caller.PeerAddr, TLS: caller.TLS,
	})
	delete(caller.Header, "Authorization")
	if refused != nil {
		c.refused.add(refused)
		// A caller without a token may come often: there is one line at info for each second and reason.
		level, silenced := c.senderLevel("caller.refused", logline.Printable(refused.Reason, maxLabelText))
		attrs := []any{"transport", caller.Transport, "remote", caller.RemoteAddr, silenced}
		// The client has not said its name yet: its library names itself at most.
		attrs = appendText(attrs, "user_agent", logline.Printable(strings.Join(caller.Header["User-Agent"], ", "), maxClientText))
		c.logger.Log(ctx, level, "caller.refused", append(attrs, refusalAttrs(refused)...)...)
	}
	return p, refused
}

func (c *Core) authenticate(ctx context.Context, caller *auth.Caller) (p *auth.Principal, refused *mcp.Refusal) {
	defer func() {
		if v := recover(); v != nil {
			c.logger.ErrorContext(ctx, "authenticator.panic", "panic", v, "stack", string(debug.Stack()))
			p, refused = nil, &mcp.Refusal{Status: 503, Reason: "panic", By: byAuthenticator, Message: "it cannot be told who calls"}
		}
	}()
	p, err := c.authenticator.Authenticate(ctx, caller)
	if err == nil {
		err = p.Check()
	}
	if err != nil {
		return nil, RefusalOf(err, mcp.Refusal{Status: 401, Reason: "unauthenticated", By: byAuthenticator})
	}
	return p, nil
}

// Who refuses a request if the rule itself does not say so.
const (
	byAuthorization = "authorization"
	byAdmission     = "admission"
)

// askRules asks whether the caller may do what a request asks, and then the server's rules of
// admission; nil is yes. A rule that panics lets nothing in.
func (c *Core) askRules(r *Request) (refused *mcp.Error) {
	if c.authorize == nil && c.admission == nil {
		return nil
	}
	by := byAuthorization
	defer func() {
		if v := recover(); v != nil {
			c.logger.ErrorContext(r.ctx, "admission.panic", append(r.LogAttrs(), "by", by, "panic", v, "stack", string(debug.Stack()))...)
			refused = (&mcp.Refusal{Status: 503, Reason: "panic", By: by}).RPC()
		}
	}()
	if c.authorize != nil {
		if err := c.authorize(r); err != nil {
			return RefusalOf(err, mcp.Refusal{Status: 403, Reason: "forbidden", By: by}).RPC()
		}
	}
	if by = byAdmission; c.admission == nil {
		return nil
	}
	r.GiveTurn() // the rule may wait
	ctx := r.Admitting()
	defer ctx.End()
	if err := c.admission(ctx, r); err != nil {
		return RefusalOf(err, mcp.Refusal{Status: 403, Reason: "forbidden", By: by}).RPC()
	}
	return nil
}

// RefusalOf finds the refusal in an error, or makes it the reason behind another one.
func RefusalOf(err error, otherwise mcp.Refusal) *mcp.Refusal {
	if r, ok := mcp.AsRefusal(err); ok {
		if r.By != "" && r.Reason != "" {
			return r
		}
		named := *r
		if named.By == "" {
			named.By = otherwise.By
		}
		if named.Reason == "" {
			named.Reason = otherwise.Reason
		}
		return &named
	}
	otherwise.Err = err
	return &otherwise
}
