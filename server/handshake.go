package server

import (
	"context"

	"github.com/go-json-experiment/json"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

var _ = feature((*Server).addLifecycle)

// addLifecycle registers the methods by which a client gets to know the server:
// server/discover in the modern era, initialize and ping in the legacy one.
func (s *Server) addLifecycle() {
	s.handle(&method{name: mcp.MethodServerDiscover, eras: inModern, handler: s.discover})
	s.handle(&method{
		name: mcp.MethodInitialize, eras: inLegacy, handler: s.initialize,
		handshake: true, beforeInitialize: true,
	})
	s.handle(&method{name: mcp.MethodPing, eras: inLegacy, handler: ping, beforeInitialize: true})
}

// announce adds what a feature says to the capabilities. It is asked each time: a
// feature may come to life while the server serves.
func (s *Server) announce(feature func(*mcp.ServerCapabilities)) {
	s.announcements = append(s.announcements, feature)
}

// capabilities returns what the server announces to the clients of an era.
func (s *Server) capabilities(in eras) (c mcp.ServerCapabilities) {
	for _, feature := range s.announcements {
		feature(&c)
	}
	c.Extensions = s.extensions.announced(in)
	return c
}

func (s *Server) discover(context.Context, *middleware.Request) (mcp.Result, error) {
	return &mcp.DiscoverResult{
		SupportedVersions: append(mcp.Versions(mcp.Modern), mcp.Versions(mcp.Legacy)...),
		Capabilities:      s.capabilities(inModern),
		Instructions:      s.instructions,
		CacheHint:         s.listHint(),
	}, nil
}

func (s *Server) initialize(_ context.Context, req *middleware.Request) (mcp.Result, error) {
	var params mcp.InitializeParams
	if err := json.Unmarshal(req.Params, &params); err != nil {
		return nil, mcp.NewError(mcp.CodeInvalidParams, "the params of initialize are not valid")
	}
	sess := coreOf(req).Session()
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
		Capabilities:    s.capabilities(inLegacy),
		ServerInfo:      s.info,
		Instructions:    s.instructions,
	}, nil
}

func ping(context.Context, *middleware.Request) (mcp.Result, error) { return &mcp.EmptyResult{}, nil }
