package server

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
	"github.com/vitrine-mcp/vitrine/server/internal/schema"
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
	params, err := s.initializeParams(req.Params)
	if err != nil {
		return nil, err
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

// initializeParams decodes what a legacy session keeps of its client. Icons that are too large are left out: they are for users,
// and a server shows none.
func (s *Server) initializeParams(raw jsontext.Value) (params mcp.InitializeParams, err error) {
	type withoutIcons struct {
		mcp.InitializeParams
		ClientInfo struct {
			mcp.Implementation
			Icons struct{} `json:"icons"`
		} `json:"clientInfo"`
	}
	most := s.core.Limits().MaxClientBytes
	iconsFit := schema.Fits[mcp.InitializeParams](raw, most)
	if !iconsFit && !schema.Fits[withoutIcons](raw, most) {
		return params, s.core.ClientTooLarge()
	}
	if wire.Unmarshal(raw, &params) != nil {
		return params, mcp.NewError(mcp.CodeInvalidParams, "the params of initialize are not valid")
	}
	if !iconsFit {
		params.ClientInfo.Icons = nil
	}
	return params, nil
}

func ping(context.Context, *middleware.Request) (mcp.Result, error) { return &mcp.EmptyResult{}, nil }

// initialized subscribes a legacy client to what its handshake has announced.
func (s *Server) initialized(_ context.Context, n *Notice) {
	if n.session != nil && n.session.Peer() != nil {
		s.subscriptions.Begin(n.session)
	}
}
