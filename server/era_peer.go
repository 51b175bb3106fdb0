package server

import (
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// Values of a peer that has said nothing of itself.
var (
	unknownClient  mcp.Implementation
	noCapabilities mcp.ClientCapabilities
)

// describePeer fills in who has sent a message. s is its session, or nil.
func describePeer(p *middleware.Peer, in *session.Inbound, s *session.Session) {
	p.Era, p.Version = in.Era, in.Version
	if in.Conn != nil {
		p.Addr, p.Transport = in.Conn.RemoteAddr, in.Conn.Transport
	}
	if s != nil {
		p.SessionID = s.ID()
	}
	if in.Era == mcp.Modern {
		return
	}
	p.Client, p.Capabilities = &unknownClient, &noCapabilities
	if s == nil {
		return
	}
	if known := s.Peer(); known != nil {
		p.Client, p.Capabilities = &known.Client, &known.Capabilities
	}
}
