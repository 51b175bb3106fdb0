package session

import (
	"context"
	"runtime/debug"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// errAuthenticatorPanic refuses a caller who cannot be told from others: it must not be
// taken for one of them.
var errAuthenticatorPanic = mcp.NewError(mcp.CodeInternalError, "it cannot be told who calls")

// Authenticate finds out on whose behalf a caller speaks: nil if the server tells nobody
// apart. With an error the caller is not to be served. If the user's function panics there
// is an error, too.
func (c *Core) Authenticate(ctx context.Context, caller auth.Caller) (*auth.Principal, error) {
	if c.authenticator == nil {
		return nil, nil
	}
	return c.authenticate(ctx, &auth.Caller{
		Transport: caller.Transport, Header: caller.Header, RemoteAddr: caller.RemoteAddr, TLS: caller.TLS,
	})
}

func (c *Core) authenticate(ctx context.Context, caller *auth.Caller) (p *auth.Principal, err error) {
	defer func() {
		if v := recover(); v != nil {
			c.logger.ErrorContext(ctx, "authenticator.panic", "panic", v, "stack", string(debug.Stack()))
			p, err = nil, errAuthenticatorPanic
		}
	}()
	if p, err = c.authenticator.Authenticate(ctx, caller); err != nil {
		return nil, err
	}
	return p, p.Check()
}
