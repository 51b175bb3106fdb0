package telemetry

import (
	"crypto/sha256"
	"encoding/hex"
	"hash/maphash"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/otel/propagation"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// Info describes a message when it arrives. The zero value of a field means that it is not
// known. Texts of clients are cut and made printable where they are shown.
type Info struct {
	// Series has the labels of the operation. If it is nil, the labels are Method and Target.
	// Then Target must come from a bounded set, such as the names of registered tools, and a
	// Method that is not the protocol's is "_OTHER" in metrics.
	Series *Series
	// Method is the method as the client sent it, Target the registered tool or prompt.
	Method, Target string
	// Class is the name of the concurrency class that the program has put the request into. It must
	// come from a bounded set.
	Class string
	// ID is the id of the request. Notifications have none.
	ID mcp.ID
	// URI is the URI of the resource in the request.
	URI string
	// Version is the revision of the protocol that the client speaks.
	Version mcp.Version

	// Transport is "http", "stdio", "memory", or the name of another transport.
	Transport string
	// Network, Protocol and ProtocolVersion are network.transport, network.protocol.name
	// and network.protocol.version of the conventions: "tcp" or "pipe"; "http"; "1.1".
	Network, Protocol, ProtocolVersion string
	// RemoteAddr is the address of the client, with or without its port.
	RemoteAddr string
	// Via and ForwardedFor are what trusted proxies say of the way of the message: the Via headers, and
	// the addresses that it was forwarded for.
	Via, ForwardedFor string
	// Principal is the principal of the client, or nil.
	Principal *auth.Principal

	// SessionID is the Mcp-Session-Id. It is a credential, so it is shown nowhere.
	SessionID string
	// Session is the name of the session or the connection on pages, and on spans if there is a
	// SessionID. If it is empty, they have the start of a digest of SessionID.
	Session string
	// Client describes the client. If it is nil, ClientInfo does, in JSON.
	Client     *mcp.Implementation
	ClientInfo jsontext.Value

	// Carrier has the trace context of the message: traceparent, tracestate and baggage, which
	// MCP puts into params._meta. It may be a [propagation.MapCarrier].
	Carrier propagation.TextMapCarrier
	// Header is the HTTP header. Its trace context is used if the message has none.
	Header http.Header
	// Arguments are the arguments of a tool call; see [WithArguments].
	Arguments jsontext.Value
	// Bytes is the size of the message in bytes.
	Bytes int
	// ArrivedAt is when the message arrived. The default is the time of the call.
	ArrivedAt time.Time
	// Deadline is when the server cancels the request.
	Deadline time.Time
	// Queued tells that the handler is not called yet; see [Operation.Started].
	Queued bool

	// Origin is the server's own request. Only a server that is a [Source] sets it. Telemetry
	// then keeps no copy of Info and calls Origin.Describe when it needs more. It does not show
	// or count the operation, because the source does. Such a server must set Series, Version,
	// Network, Protocol, ProtocolVersion, Carrier, Header and ArrivedAt, and may leave out the
	// rest.
	Origin Origin
}

// An Origin is the request of a server that is a [Source].
type Origin interface {
	// Describe returns what is known at the moment. It is called by [Telemetry.Begin], by
	// methods of the [Operation], and for pages. It must be safe for concurrent use.
	Describe() Info
}

// known returns what is known about the request at the moment.
func (i *Info) known() Info {
	if i.Origin != nil {
		return i.Origin.Describe()
	}
	return *i
}

// client returns the client's name and version, printable.
func (i *Info) client(known *clientNames) (name, version string) {
	return known.name(i.Client, i.ClientInfo)
}

// sessionName returns the name of the session on pages. Nobody who reads it can use the session.
func (i *Info) sessionName() string {
	if i.Session == "" && i.SessionID != "" {
		sum := sha256.Sum256([]byte(i.SessionID))
		return hex.EncodeToString(sum[:4])
	}
	return i.Session
}

// spanSession returns the name of the session on spans, or "" if there is no id.
func (i *Info) spanSession() string {
	if i.SessionID == "" {
		return ""
	}
	return i.sessionName()
}

// tenant returns the tenant of the principal, or "".
func (i *Info) tenant() string {
	if i.Principal == nil {
		return ""
	}
	return i.Principal.Tenant
}

// wireLabels are the labels that all messages of one kind of client share.
type wireLabels struct {
	version mcp.Version // as the client sent it
	label   string      // the same, bounded
	network networkKey
}

func (i *Info) wire() wireLabels {
	return wireLabels{i.Version, versionLabel(i.Version), i.network()}
}

// network returns the network labels, all from closed sets.
func (i *Info) network() networkKey {
	return networkKey{
		bounded(i.Network, networkTransports()), bounded(i.Protocol, networkProtocols()), bounded(i.ProtocolVersion, networkVersions()),
	}
}

// clientNames caches the names and versions of clients. A modern client sends them with each
// request, and a server has few kinds of clients. The plain version is readClient for each request.
type clientNames struct {
	seed  maphash.Seed
	known [16]atomic.Pointer[clientName]
}

// A clientName is the result of reading info.
type clientName struct{ info, name, version string }

// maxKnownInfo bounds the info of one client in the cache, in bytes.
const maxKnownInfo = 512

func newClientNames() *clientNames { return &clientNames{seed: maphash.MakeSeed()} }

// name returns the name and the version of a client that is described in one of two forms, printable. Both
// are empty for an unknown client.
func (c *clientNames) name(client *mcp.Implementation, info jsontext.Value) (name, version string) {
	switch {
	case client != nil:
		return logline.Printable(client.Name, maxName), logline.Printable(client.Version, maxName)
	case len(info) > 0:
		return c.of(info)
	}
	return "", ""
}

// of returns the name and the version of a client, cut and printable. Both are empty if the
// bytes cannot be read. c may be nil; then nothing is cached.
func (c *clientNames) of(info jsontext.Value) (name, version string) {
	if c == nil || len(info) > maxKnownInfo {
		return readClient(info)
	}
	place := &c.known[maphash.Bytes(c.seed, info)%uint64(len(c.known))]
	if known := place.Load(); known != nil && known.info == string(info) {
		return known.name, known.version
	}
	name, version = readClient(info)
	place.Store(&clientName{string(info), name, version})
	return name, version
}

func readClient(info jsontext.Value) (name, version string) {
	var client struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	_ = json.Unmarshal(info, &client) // untrusted and optional: an error leaves the name empty
	return logline.Printable(client.Name, maxName), logline.Printable(client.Version, maxName)
}
