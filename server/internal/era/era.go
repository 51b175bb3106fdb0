// Package era has what is not the same for all revisions of the protocol: how results, questions
// and errors are written, and what a client has declared. Features do not look at the revision
// of their caller.
package era

import (
	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// A Set is a set of eras.
type Set uint8

const (
	Legacy Set = 1 << mcp.Legacy
	Modern Set = 1 << mcp.Modern
	Both       = Legacy | Modern
)

// Has reports whether an era is in the set.
func (s Set) Has(e mcp.Era) bool { return s&(1<<e) != 0 }

// CheckVersion returns the error for a modern request of a revision that is not served
// statelessly, or nil.
func CheckVersion(v mcp.Version) *mcp.Error {
	if era, known := v.Era(); known && era == mcp.Modern {
		return nil
	}
	return mcp.NewError(mcp.CodeUnsupportedVersion, "unsupported protocol version").WithData(
		mcp.UnsupportedVersionData{Supported: mcp.Versions(mcp.Modern), Requested: logline.Printable(string(v), 64)})
}

// An Origin is the Origin of a request that middlewares see.
type Origin interface{ Core() *session.Request }

// CoreOf returns the request of the session core behind a request of middlewares. It panics if a
// middleware has passed on a request without the Origin; the core recovers the panic.
func CoreOf(req *middleware.Request) *session.Request {
	origin, ok := req.Origin.(Origin)
	if !ok {
		panic("server: a middleware has passed on a request without the Origin of the one that it was given")
	}
	return origin.Core()
}

// Values for a legacy client that has not sent initialize.
var (
	unknownClient  mcp.Implementation
	noCapabilities mcp.ClientCapabilities
)

// DescribePeer fills in p from a received message and its session, which may be nil.
func DescribePeer(p *middleware.Peer, in *session.Inbound, s *session.Session) {
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

// StoredCall returns a call that was stored with the task that it has become. Only modern calls become tasks.
func StoredCall(message wire.Envelope) *session.Inbound {
	return &session.Inbound{Envelope: message, Era: mcp.Modern, Version: mcp.Version(message.Meta.ProtocolVersion)}
}

// RepeatsParams reports whether a client repeats arguments in HTTP headers.
func RepeatsParams(in *session.Inbound) bool { return in.Era == mcp.Modern && in.Header != nil }

// ProgressHasMessage reports whether the client knows the message of notifications/progress, which came
// with 2025-03-26.
func ProgressHasMessage(r *session.Request) bool { return r.Version.AtLeast(mcp.Version20250326) }
