package middleware

import (
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/jsonvalue"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Request is one message on its way through the chain: a request, or a notification
// if its ID is zero. It is a plain value that anybody may build, such as a unit test or
// the adapter of another server. A middleware must not change the request that it gets.
// It may pass on a changed copy, which the next middlewares see; the handler serves the
// message that has arrived.
type Request struct {
	// Route says which registration serves the request.
	Route Route
	// ID is the JSON-RPC id; zero for a notification.
	ID mcp.ID
	// Method is the method as it was sent.
	Method string
	// Target is the target of the request as it was sent: the name of a tool or a prompt, the
	// URI of a resource, the id of a task; "" if the method has no target.
	Target string
	// Params is the raw params member, nil if absent. Its bytes must not be changed.
	Params jsontext.Value
	// Header is the HTTP header of the exchange, nil on other transports. It must not be
	// changed.
	Header http.Header
	// Peer describes the other end of the connection.
	Peer Peer
	// Principal is the person or program that the peer speaks for; nil for a caller without a
	// principal.
	Principal *auth.Principal
	// ArrivedAt is when the request arrived.
	ArrivedAt time.Time
	// Origin is the server's own value for the request, for code that knows the server. A
	// middleware that passes on a copy keeps it. It is nil in a unit test.
	Origin any
}

// A Route is the registration that serves a request. Its texts come from the program and not
// from clients, so that their number is bounded and they can be labels of metrics.
type Route struct {
	// Method is the protocol method, such as "tools/call", and "_OTHER" for a method that
	// the server does not have.
	Method string
	// Target is the name of the registered tool or prompt, and "" for everything else: the
	// name of a resource is not suited for a label.
	Target string
	// Key identifies the registration, for middlewares with state for each route. It stays the
	// same when the registration is replaced. Unlike Target it distinguishes resources.
	Key string
}

// NewRoute returns the route of a method and of the registration with the given name, which
// may be "". label is the name for metrics, or "".
func NewRoute(method, name, label string) Route {
	key := method
	if name != "" {
		key += " " + name
	}
	return Route{Method: method, Target: label, Key: key}
}

// A Peer is the other end of a connection.
type Peer struct {
	// Addr is the network address as host:port, or "".
	Addr string
	// Transport is "http", "stdio", "memory", or the name of another transport.
	Transport string
	// SessionID is the id of a legacy HTTP session, or "".
	SessionID string
	// Era and Version are the era and the protocol revision of the request.
	Era     mcp.Era
	Version mcp.Version
	// Client and Capabilities are those that a legacy client has sent with initialize. They are
	// nil before that, and for a modern client, which sends them with each request; see
	// [Request.Client] and [Request.Capabilities].
	Client       *mcp.Implementation
	Capabilities *mcp.ClientCapabilities
}

// Client returns how the client describes itself, in initialize or with this request. It is
// for display only and must not be trusted. It is zero if the client sends no description.
func (r *Request) Client() mcp.Implementation {
	if r.Peer.Client != nil {
		return *r.Peer.Client
	}
	var meta struct {
		Client mcp.Implementation `json:"io.modelcontextprotocol/clientInfo"`
	}
	if r.decodeMeta(&meta) != nil {
		return mcp.Implementation{}
	}
	return meta.Client
}

// Capabilities returns the capabilities that the client has declared: with this request in the
// modern era, and in initialize in the legacy era. With a request a capability that has a wrong
// type is not declared, and the others are.
func (r *Request) Capabilities() mcp.ClientCapabilities {
	if r.Peer.Capabilities != nil {
		return *r.Peer.Capabilities
	}
	var meta struct {
		Capabilities struct {
			Experimental jsontext.Value `json:"experimental"`
			Roots        jsontext.Value `json:"roots"`
			Sampling     jsontext.Value `json:"sampling"`
			Elicitation  jsontext.Value `json:"elicitation"`
			Extensions   jsontext.Value `json:"extensions"`
		} `json:"io.modelcontextprotocol/clientCapabilities"`
	}
	if r.decodeMeta(&meta) != nil {
		return mcp.ClientCapabilities{}
	}
	sent := &meta.Capabilities
	return mcp.ClientCapabilities{
		Experimental: declared[map[string]any](sent.Experimental), Roots: declared[*mcp.RootsCapability](sent.Roots),
		Sampling: declared[*mcp.SamplingCapability](sent.Sampling), Elicitation: declared[*mcp.ElicitationCapability](sent.Elicitation),
		Extensions: declared[map[string]any](sent.Extensions),
	}
}

// declared decodes one capability. It returns the zero value for a capability with a wrong type.
func declared[T any](sent jsontext.Value) (capability T) {
	if decode(sent, &capability) != nil {
		return *new(T)
	}
	return capability
}

// Meta decodes the request's _meta member; nil if there is none. No limit bounds the memory that this takes, and 4 MiB of text can
// become 200 MiB: a middleware that any caller reaches rather decodes the member that it needs from Params.
func (r *Request) Meta() mcp.Meta {
	var meta mcp.Meta
	_ = r.decodeMeta(&meta) // the message is valid JSON; for a _meta that is not an object the result is nil
	return meta
}

// decodeMeta decodes the _meta member.
func (r *Request) decodeMeta(into any) error {
	return decode(jsonvalue.Member(r.Params, "_meta"), into)
}

// decode decodes params or a part of them, which are untrusted and may be absent. It does not look for names that are there twice, which
// takes many times as long in a large object: our servers have refused them before, and the SDKs of the adapters accept them.
func decode(part jsontext.Value, into any) error {
	if part == nil {
		return nil
	}
	return jsonvalue.Unmarshal(part, into, jsontext.AllowDuplicateNames(true))
}
