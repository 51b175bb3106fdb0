package server

import (
	"context"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// ofItsSession answers the requests in a legacy HTTP session of another principal as
// if there were no such session. A modern request has none, and a byte stream is the
// peer's own.
func (s *Server) ofItsSession(h middleware.Handler) middleware.Handler {
	if s.principal == nil {
		return h
	}
	return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
		if sess := req.Core().Session(); sess != nil && sess.ID() != "" && !sess.Bind(s.principalOf(ctx, req)) {
			return nil, session.SessionUnknown()
		}
		return h(ctx, req)
	}
}
