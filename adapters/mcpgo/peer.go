package mcpgo

import (
	"context"
	"encoding/json"
	"net/http"

	sdk "github.com/mark3labs/mcp-go/server"

	"github.com/vitrine-mcp/vitrine/internal/adapt"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// peerOf describes the sender of a request.
func peerOf(ctx context.Context, params adapt.Params) middleware.Peer {
	session := sdk.ClientSessionFromContext(ctx)
	peer := middleware.Peer{Transport: transportOf(ctx, session), Version: params.Version}
	if req := adapt.ExchangeOf(ctx).Request(); req != nil {
		peer.Addr = req.RemoteAddr
	}
	if peer.Version == "" {
		peer.Version = mcp.Version(sdk.RequestProtocolVersion(ctx))
	}
	if header, ok := ctx.Value(headerKey{}).(http.Header); ok && peer.Version == "" {
		peer.Version = mcp.Version(header.Get("Mcp-Protocol-Version"))
	}
	peer.Era, _ = peer.Version.Era()
	if session == nil || peer.Era == mcp.Modern {
		return peer
	}
	if peer.Transport == "http" {
		peer.SessionID = session.SessionID()
	}
	if known, ok := session.(sdk.SessionWithClientInfo); ok {
		if client := known.GetClientInfo(); client.Name != "" {
			peer.Client = &mcp.Implementation{Name: client.Name, Version: client.Version, Title: client.Title}
			peer.Capabilities = new(mcp.ClientCapabilities)
			if raw, err := json.Marshal(known.GetClientCapabilities()); err == nil {
				_ = json.Unmarshal(raw, peer.Capabilities) // a capability with a wrong type is not declared
			}
		}
	}
	return peer
}

// transportOf returns the transport by its name in telemetry, or "" if it is not known.
func transportOf(ctx context.Context, session sdk.ClientSession) string {
	if connectionOf(ctx) != nil {
		return "stdio"
	}
	if adapt.ExchangeOf(ctx) != nil || ctx.Value(headerKey{}) != nil {
		return "http"
	}
	switch s := session.(type) {
	case nil:
	case *sdk.InProcessSession:
		return "memory"
	default:
		if s.SessionID() == "stdio" { // the only such session
			return "stdio"
		}
	}
	return ""
}

// registered shows an HTTP session. Other sessions are registered before the client has sent
// initialize; see initialized.
func (a *Adapter) registered(ctx context.Context, session sdk.ClientSession) {
	if transportOf(ctx, session) == "http" {
		a.open(ctx, session)
	}
}

// initialized shows the session of a connection.
func (a *Adapter) initialized(ctx context.Context) {
	session := sdk.ClientSessionFromContext(ctx)
	if transport := transportOf(ctx, session); session != nil && transport != "http" {
		a.open(ctx, session)
	}
}

func (a *Adapter) open(ctx context.Context, session sdk.ClientSession) {
	peer := peerOf(ctx, adapt.Params{})
	end := a.core.Telemetry.Session(telemetry.Info{
		Version: peer.Version, Transport: peer.Transport, RemoteAddr: peer.Addr, SessionID: peer.SessionID, Client: peer.Client,
	})
	if before, ok := a.sessions.Swap(session.SessionID(), &openSession{end, peer.Client}); ok {
		before.(*openSession).end(mcp.CauseTransportClose)
	}
}

// An openSession is a session that has begun.
type openSession struct {
	end    func(mcp.Cause)
	client *mcp.Implementation
}

// clientOf returns how the client of a session describes itself, or nil.
func (a *Adapter) clientOf(id string) *mcp.Implementation {
	if open, ok := a.sessions.Load(id); ok {
		return open.(*openSession).client
	}
	return nil
}

// unregistered ends a session.
func (a *Adapter) unregistered(ctx context.Context, session sdk.ClientSession) {
	open, ok := a.sessions.LoadAndDelete(session.SessionID())
	if !ok {
		return
	}
	cause := mcp.CauseSessionIdle // closed by mcp-go after a timeout
	req := adapt.ExchangeOf(ctx).Request()
	switch {
	case req != nil && req.Method == http.MethodDelete:
		cause = mcp.CauseSessionDelete
	case a.core.Closing():
		cause = mcp.CauseServerShutdown
	case connectionOf(ctx) != nil && connectionOf(ctx).end() != nil:
		cause = connectionOf(ctx).end().Cause
	case req != nil || transportOf(ctx, session) != "":
		cause = mcp.CauseTransportClose
	}
	open.(*openSession).end(cause)
}
