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
	most := s.core.Limits().MaxClientBytes
	switch {
	case schema.Fits[mcp.InitializeParams](raw, most):
		err = wire.Unmarshal(raw, &params)
	case schema.Fits[initializeWithoutIcons](raw, most):
		var plain initializeWithoutIcons
		err = wire.Unmarshal(raw, &plain)
		client := &plain.ClientInfo
		params = mcp.InitializeParams{ProtocolVersion: plain.ProtocolVersion, Capabilities: plain.Capabilities, ClientInfo: mcp.Implementation{
			Name: client.Name, Version: client.Version, Title: client.Title, Description: client.Description, WebsiteURL: client.WebsiteURL,
		}}
	default:
		return params, s.core.ClientTooLarge()
	}
	if err != nil {
		return params, mcp.NewError(mcp.CodeInvalidParams, "the params of initialize are not valid")
	}
	return params, nil
}

// initializeWithoutIcons is [mcp.InitializeParams] without what may be a list of a million items.
type initializeWithoutIcons struct {
	ProtocolVersion mcp.Version            `json:"protocolVersion"`
	Capabilities    mcp.ClientCapabilities `json:"capabilities"`
	ClientInfo      struct {
		Name        string `json:"name"`
		Version     string `json:"version"`
		Title       string `json:"title"`
		Description string `json:"description"`
		WebsiteURL  string `json:"websiteUrl"`
	} `json:"clientInfo"`
}

func ping(context.Context, *middleware.Request) (mcp.Result, error) { return &mcp.EmptyResult{}, nil }

// initialized subscribes a legacy client to what its handshake has announced.
func (s *Server) initialized(_ context.Context, n *Notice) {
	if n.session != nil && n.session.Peer() != nil {
		s.subscriptions.Begin(n.session)
	}
}
