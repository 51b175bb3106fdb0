package middleware

import (
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Request is one request on its way through the chain. It may be used from any
// goroutine until the handler has returned.
type Request struct {
	core *session.Request
	// labelled belongs to Profile, which gives it to the handler.
	labelled labelled
}

// NewRequest wraps a request of the session core. Servers call it.
func NewRequest(r *session.Request) *Request { return &Request{core: r} }

// Core returns the session core's view of the request, for the rooms of Vitrine.
func (r *Request) Core() *session.Request { return r.core }

// ID returns the JSON-RPC id.
func (r *Request) ID() mcp.ID { return r.core.ID }

// Method returns the method as the client sent it.
func (r *Request) Method() string { return r.core.Method }

// Target returns the registered name of the tool or prompt, or "". For an unknown
// name it is "" too.
func (r *Request) Target() string { return r.core.Route.Series.Target }

// Params returns the raw params member, nil if absent. It must not be changed.
func (r *Request) Params() jsontext.Value { return r.core.Params }

// Era returns the era in which the client speaks.
func (r *Request) Era() mcp.Era { return r.core.Era }

// Version returns the protocol revision of the request.
func (r *Request) Version() mcp.Version { return r.core.Version }

// Client returns what the client says of itself, for display only; the zero value
// if it says nothing.
func (r *Request) Client() mcp.Implementation {
	if r.core.Era == mcp.Legacy {
		if p := r.peer(); p != nil {
			return p.Client
		}
		return mcp.Implementation{}
	}
	var info mcp.Implementation
	_ = json.Unmarshal(r.core.Meta.ClientInfo, &info) // untrusted and optional: what cannot be read is empty
	return info
}

// Capabilities returns what the client can do: declared with this request in the
// modern era, and in initialize in the legacy one.
func (r *Request) Capabilities() mcp.ClientCapabilities {
	if r.core.Era == mcp.Legacy {
		if p := r.peer(); p != nil {
			return p.Capabilities
		}
		return mcp.ClientCapabilities{}
	}
	var caps mcp.ClientCapabilities
	_ = json.Unmarshal(r.core.Meta.ClientCapabilities, &caps) // an ill-typed capability is not declared
	return caps
}

func (r *Request) peer() *session.Peer {
	if s := r.core.Session(); s != nil {
		return s.Peer()
	}
	return nil
}

// ProgressToken returns the token under which the client wants progress, or nil. A
// token that is neither a string nor an integer, which only legacy clients get
// through, is none.
func (r *Request) ProgressToken() mcp.ProgressToken {
	if !r.core.Meta.ProgressTokenOK {
		return nil
	}
	return r.core.Meta.ProgressToken
}

// Meta decodes the request's _meta member; nil if there is none.
func (r *Request) Meta() mcp.Meta {
	var meta mcp.Meta
	_ = json.Unmarshal(r.core.Meta.Raw, &meta) // valid JSON already; a non-object gives nil
	return meta
}

// SessionID returns the Mcp-Session-Id of a legacy HTTP session, or "".
func (r *Request) SessionID() string {
	if s := r.core.Session(); s != nil {
		return s.ID()
	}
	return ""
}

// Header returns the HTTP header of the exchange, nil on other transports. It must
// not be changed.
func (r *Request) Header() http.Header { return r.core.Header }

// Transport returns "http", "stdio" or "memory".
func (r *Request) Transport() string { return r.core.Conn.Transport }

// RemoteAddr returns the network address of the peer as host:port, or "".
func (r *Request) RemoteAddr() string { return r.core.Conn.RemoteAddr }

// Principal returns on whose behalf the client speaks, as the server's WithPrincipal
// has found out; "" without that option.
func (r *Request) Principal() string { return r.core.Conn.Principal }

// Deadline returns when the caller is answered with an error if the handler has not
// returned.
func (r *Request) Deadline() time.Time { return r.core.Deadline() }

// ArrivedAt returns when the request arrived.
func (r *Request) ArrivedAt() time.Time { return r.core.ArrivedAt() }
