package telemetry

import (
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/otel/propagation"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// Info says what is known of a message when it arrives. Every field may be left at its zero
// value, which means that it is not known. What a client says of itself is cut and made
// fit to print where it is shown.
type Info struct {
	// Series has the labels of the operation. Without one they are found by Method and
	// Target, in which Target must come from a bounded set, such as the names of registered
	// tools, and Method is "_OTHER" in metrics if it is none of the protocol's.
	Series *Series
	// Method and Target are the method as the client wrote it, and the registered tool
	// or prompt.
	Method, Target string
	// ID is the id of the request; notifications have none.
	ID mcp.ID
	// URI is the resource that the request names.
	URI string
	// Version is the revision of the protocol that the client speaks.
	Version mcp.Version

	// Transport is "http", "stdio", "memory", or a word of a transport's own.
	Transport string
	// Network, Protocol and ProtocolVersion are network.transport, network.protocol.name
	// and network.protocol.version of the conventions: "tcp" or "pipe"; "http"; "1.1".
	Network, Protocol, ProtocolVersion string
	// RemoteAddr is the address of the client, with or without its port.
	RemoteAddr string
	// Principal is on whose behalf the client speaks, or nil.
	Principal *auth.Principal

	// SessionID is the Mcp-Session-Id. It is put on spans; anything that people
	// look at shows its first 8 bytes.
	SessionID string
	// Session is what people are shown of the session or the connection, in place of the
	// start of SessionID.
	Session string
	// Client is what the client said of itself, or else ClientInfo is, in JSON.
	Client     *mcp.Implementation
	ClientInfo jsontext.Value

	// Carrier holds the trace context of the message, which MCP carries in params._meta:
	// traceparent, tracestate and baggage. [propagation.MapCarrier] is one.
	Carrier propagation.TextMapCarrier
	// Header is the HTTP header. Its trace context counts if the message has none.
	Header http.Header
	// Arguments are those of a tool call; see [WithArguments].
	Arguments jsontext.Value
	// Bytes is the size of the message.
	Bytes int
	// ArrivedAt is when the message arrived; the time of the call by default.
	ArrivedAt time.Time
	// Deadline is when the server gives the request up.
	Deadline time.Time
	// Queued tells that the handler is not called yet: see [Operation.Started].
	Queued bool

	// Origin is set by a server that is a [Source], and by no other: its own request.
	// Telemetry then keeps no copy of this value, asks Origin when it needs to know more,
	// and neither shows nor counts the operation, because the source does. Such a
	// server needs to fill in no more than what is cheap, and of these fields all:
	// Series, Version, Network, Protocol, ProtocolVersion, Carrier, Header and ArrivedAt.
	Origin Origin
}

// An Origin is the request of a server that is a [Source].
type Origin interface {
	// Describe says what is known by now. It is called from [Telemetry.Begin], from methods
	// of the [Operation], and when a page shows the request; possibly at the same time.
	Describe() Info
}

// client returns what the sender of the message says of itself, fit to print.
func (i *Info) client(known *clientNames) (name, version string) {
	switch {
	case i.Client != nil:
		name, version = i.Client.Name, i.Client.Version
	case len(i.ClientInfo) > 0:
		return known.of(i.ClientInfo)
	}
	return logline.Printable(name, maxName), logline.Printable(version, maxName)
}

// shortSession returns what people are shown of the session.
func (i *Info) shortSession() string {
	if i.Session == "" && len(i.SessionID) > 8 {
		return i.SessionID[:8]
	}
	return i.Session
}

// tenant returns the tenant of the principal, or "".
func (i *Info) tenant() string {
	if i.Principal == nil {
		return ""
	}
	return i.Principal.Tenant
}

// wireLabels are the labels that the messages of one kind of client share.
type wireLabels struct {
	version mcp.Version // as it was said
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
