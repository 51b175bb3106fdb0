package server

import (
	"context"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
)

// eras are the eras that a server speaks.
type eras []mcp.Era

// WithEras sets which eras of the protocol the server speaks. Without it the server speaks both. A
// request of another era gets an error that names the revisions of the server.
func WithEras(eras ...mcp.Era) Option { return optionFunc(func(c *config) { c.eras = eras }) }

// SetEras is [WithEras] after New. Package service uses it for a flag. It must be called before the
// first request.
func (s *Server) SetEras(eras ...mcp.Era) { s.core.ServeOnly(eras...) }

func (s *Server) discover(context.Context, *middleware.Request) (mcp.Result, error) {
	return &mcp.DiscoverResult{
		SupportedVersions: s.core.Versions(),
		Capabilities:      s.announced(era.Modern),
		Instructions:      s.instructions,
		CacheHint:         s.listHint(),
	}, nil
}

func (s *Server) initialize(_ context.Context, req *middleware.Request) (mcp.Result, error) {
	var params mcp.InitializeParams
	if err := wire.Unmarshal(req.Params, &params); err != nil {
		return nil, mcp.NewError(mcp.CodeInvalidParams, "the params of initialize are not valid")
	}
	sess := era.CoreOf(req).Session()
	if sess.Peer() != nil {
		return nil, mcp.NewError(mcp.CodeInvalidRequest, "the session is initialized already")
	}
	version := params.ProtocolVersion
	if era, known := version.Era(); !known || era == mcp.Modern {
		version = mcp.LatestLegacyVersion
	}
	sess.Initialize(&session.Peer{
		Version: version, Client: params.ClientInfo, Capabilities: params.Capabilities,
	})
	return &mcp.InitializeResult{
		ProtocolVersion: version,
		Capabilities:    s.announced(era.Legacy),
		ServerInfo:      s.info,
		Instructions:    s.instructions,
	}, nil
}

func ping(context.Context, *middleware.Request) (mcp.Result, error) { return &mcp.EmptyResult{}, nil }

// initialized subscribes a legacy client to what its handshake has announced.
func (s *Server) initialized(_ context.Context, n *Notice) {
	if n.session != nil && n.session.Peer() != nil {
		s.subscriptions.Begin(n.session)
	}
}
