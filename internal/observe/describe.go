package observe

import (
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// origin is a request of the core. It is a pointer, so that converting it to an interface does not
// allocate.
type origin session.Request

// Describe implements [telemetry.Origin].
func (o *origin) Describe() telemetry.Info {
	r := (*session.Request)(o)
	info := describe(r.Inbound, r.Session())
	info.Target, info.ArrivedAt, info.Deadline = r.Route.Series.Target, r.ArrivedAt(), r.Deadline()
	info.Class = r.Route.Class.Label()
	return info
}

// Caller returns the client, as it was described last, and the principal.
func (o *origin) Caller() (client *mcp.Implementation, clientInfo jsontext.Value, principal *auth.Principal) {
	r := (*session.Request)(o)
	client, clientInfo = clientOf(r.Inbound, r.Session())
	if r.Conn != nil {
		principal = r.Conn.Principal
	}
	return client, clientInfo, principal
}

// ArrivedAt returns when the request arrived.
func (o *origin) ArrivedAt() time.Time { return (*session.Request)(o).ArrivedAt() }

// Stages returns how long the request was in its middlewares and its handler.
func (o *origin) Stages() *session.Stages { return (*session.Request)(o).Stages() }

// Coding returns how long its arguments and its output took.
func (o *origin) Coding() (decoded, encoded time.Duration) { return (*session.Request)(o).Coding() }

// describe describes a message. s may be nil.
func describe(in *session.Inbound, s *session.Session) telemetry.Info {
	info := telemetry.Info{
		Method: in.Method, ID: in.ID, Version: versionOf(in, s), Header: in.Header, Arguments: in.Arguments, Bytes: in.Bytes,
	}
	if strings.HasPrefix(in.Method, "resources/") && in.HasName {
		info.URI = in.Name
	}
	addConn(&info, in.Conn)
	info.Via, info.ForwardedFor = in.Conn.Via(in.Header)
	if s != nil {
		info.SessionID, info.Session = s.ID(), s.LogID()
	}
	info.Client, info.ClientInfo = clientOf(in, s)
	return info
}

// clientOf returns the description of the client of a message: a modern one sends it with the message. s may
// be nil.
func clientOf(in *session.Inbound, s *session.Session) (*mcp.Implementation, jsontext.Value) {
	if in.Era == mcp.Modern {
		return nil, in.Meta.ClientInfo
	}
	if s != nil {
		if p := s.Peer(); p != nil {
			return &p.Client, nil
		}
	}
	return nil, nil
}

// describeSession describes a session. p may be nil.
func describeSession(s *session.Session, p *session.Peer) telemetry.Info {
	info := telemetry.Info{SessionID: s.ID(), Session: s.LogID(), ArrivedAt: s.OpenedAt()}
	addConn(&info, s.Conn())
	if p != nil {
		info.Version, info.Client = p.Version, &p.Client
	}
	return info
}

// addConn adds the description of the connection. c may be nil.
func addConn(info *telemetry.Info, c *session.Conn) {
	if c != nil {
		info.Transport, info.Network, info.Protocol, info.ProtocolVersion = c.Transport, c.Network, c.Protocol, c.ProtocolVersion
		info.RemoteAddr, info.Principal = c.RemoteAddr, c.Principal
	}
}

// addCarrier adds the trace context of a message, if it has one.
func addCarrier(info *telemetry.Info, in *session.Inbound) {
	if in.Meta.TraceParent != "" || in.Meta.Baggage != "" {
		info.Carrier = metaCarrier{&in.Meta}
	}
}

// versionOf returns the revision of a message, or else of its session.
func versionOf(in *session.Inbound, s *session.Session) mcp.Version {
	if in.Version == "" && s != nil {
		if p := s.Peer(); p != nil {
			return p.Version
		}
	}
	return in.Version
}

// metaCarrier reads a trace context from the _meta of a message. It is one pointer, so that
// converting it to an interface does not allocate.
type metaCarrier struct{ meta *wire.Meta }

// Get implements propagation.TextMapCarrier.
func (c metaCarrier) Get(key string) string {
	switch key {
	case mcp.MetaTraceParent:
		return c.meta.TraceParent
	case mcp.MetaTraceState:
		return c.meta.TraceState
	case mcp.MetaBaggage:
		return c.meta.Baggage
	}
	return ""
}

// Set implements propagation.TextMapCarrier. It does nothing.
func (metaCarrier) Set(string, string) {}

// Keys implements propagation.TextMapCarrier.
func (metaCarrier) Keys() []string {
	return []string{mcp.MetaTraceParent, mcp.MetaTraceState, mcp.MetaBaggage}
}
