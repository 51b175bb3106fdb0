package telemetry

import (
	"net"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"go.opentelemetry.io/otel/attribute"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// The keys of attributes. Those of OpenTelemetry are written by hand: the
// packages of its conventions do not carry the MCP ones any more.
const (
	keyMethod          attribute.Key = "mcp.method.name"
	keyProtocolVersion attribute.Key = "mcp.protocol.version"
	keyResourceURI     attribute.Key = "mcp.resource.uri"
	keySessionID       attribute.Key = "mcp.session.id"
	keyRequestID       attribute.Key = "jsonrpc.request.id"
	keyToolName        attribute.Key = "gen_ai.tool.name"
	keyPromptName      attribute.Key = "gen_ai.prompt.name"
	keyOperation       attribute.Key = "gen_ai.operation.name"
	keyErrorType       attribute.Key = "error.type"
	keyStatusCode      attribute.Key = "rpc.response.status_code"
	keyArguments       attribute.Key = "gen_ai.tool.call.arguments"
	keyResult          attribute.Key = "gen_ai.tool.call.result"
	keyTransport       attribute.Key = "network.transport"
	keyNetworkProtocol attribute.Key = "network.protocol.name"
	keyNetworkVersion  attribute.Key = "network.protocol.version"
	keyClientAddress   attribute.Key = "client.address"
	keyClientPort      attribute.Key = "client.port"

	keyExceptionType       attribute.Key = "exception.type"
	keyExceptionMessage    attribute.Key = "exception.message"
	keyExceptionStacktrace attribute.Key = "exception.stacktrace"

	keyCancelCause   attribute.Key = "vitrine.cancel.cause"
	keyCancelDetail  attribute.Key = "vitrine.cancel.detail"
	keyCancelUnwind  attribute.Key = "vitrine.cancel.unwind" // seconds
	keyOutcome       attribute.Key = "vitrine.response.outcome"
	keyDropReason    attribute.Key = "vitrine.drop.reason"
	keyRejectReason  attribute.Key = "vitrine.reject.reason"
	keyQueueWait     attribute.Key = "vitrine.queue.wait" // seconds
	keyClientName    attribute.Key = "vitrine.client.name"
	keyTaskID        attribute.Key = "vitrine.task.id" // its first characters
	keyTaskStatus    attribute.Key = "vitrine.task.status"
	keyClientVersion attribute.Key = "vitrine.client.version"
	keyLogLevel      attribute.Key = "vitrine.log.level"
	keyLogLogger     attribute.Key = "vitrine.log.logger"
	keyLogMessage    attribute.Key = "vitrine.log.message"
)

// Names of span events.
const (
	eventAcknowledged = "vitrine.subscription.acknowledged"

	eventCancelled = "vitrine.cancelled"
	eventDropped   = "vitrine.response.dropped"
	eventAbandoned = "vitrine.handler.abandoned"
	eventLost      = "vitrine.notification.dropped"
	eventException = "exception"
	eventLog       = "vitrine.log"
)

// operationExecuteTool is gen_ai.operation.name of tools/call.
const operationExecuteTool = "execute_tool"

// Bounds of what a peer can put on a span, in bytes.
const (
	maxName = 64
	maxURI  = 1024
	maxText = 256
)

// seriesAttributes are the attributes that all requests of a series share.
func seriesAttributes(method, target string) []attribute.KeyValue {
	attrs := []attribute.KeyValue{keyMethod.String(method)}
	if method == mcp.MethodToolsCall {
		attrs = append(attrs, keyOperation.String(operationExecuteTool))
	}
	if target != "" {
		key := keyToolName
		if method == mcp.MethodPromptsGet {
			key = keyPromptName
		}
		attrs = append(attrs, key.String(target))
	}
	return attrs
}

// messageAttributes are the attributes that are known when a request or a
// notification arrives. s may be nil.
func messageAttributes(in *session.Inbound, s *session.Session, shared []attribute.KeyValue) []attribute.KeyValue {
	attrs := append(make([]attribute.KeyValue, 0, len(shared)+12), shared...)
	if !in.ID.IsZero() {
		attrs = append(attrs, keyRequestID.String(session.Printable(in.ID.String(), maxText)))
	}
	if strings.HasPrefix(in.Method, "resources/") && in.HasName {
		attrs = append(attrs, keyResourceURI.String(session.Printable(in.Name, maxURI)))
	}
	if s != nil && s.ID() != "" {
		attrs = append(attrs, keySessionID.String(s.ID()))
	}
	attrs = append(attrs, connAttributes(in.Conn)...)
	return appendPeer(attrs, in, s)
}

// appendPeer appends the revision that the client speaks and what it says of itself.
func appendPeer(attrs []attribute.KeyValue, in *session.Inbound, s *session.Session) []attribute.KeyValue {
	if v := versionOf(in, s); v != "" {
		attrs = append(attrs, keyProtocolVersion.String(session.Printable(string(v), maxName)))
	}
	name, version := clientOf(in, s)
	if name != "" {
		attrs = append(attrs, keyClientName.String(name))
	}
	if version != "" {
		attrs = append(attrs, keyClientVersion.String(version))
	}
	return attrs
}

// versionOf returns the revision of a message: its own, or its session's.
func versionOf(in *session.Inbound, s *session.Session) mcp.Version {
	if in.Version == "" && s != nil {
		if p := s.Peer(); p != nil {
			return p.Version
		}
	}
	return in.Version
}

// connAttributes describe the connection; nil for an unknown one.
func connAttributes(c *session.Conn) []attribute.KeyValue {
	if c == nil {
		return nil
	}
	attrs := make([]attribute.KeyValue, 0, 5)
	add := func(key attribute.Key, value string) {
		if value != "" {
			attrs = append(attrs, key.String(value))
		}
	}
	add(keyTransport, c.Network)
	add(keyNetworkProtocol, c.Protocol)
	add(keyNetworkVersion, c.ProtocolVersion)
	host, port, err := net.SplitHostPort(c.RemoteAddr)
	if err != nil {
		host = c.RemoteAddr
	}
	add(keyClientAddress, host)
	if n, err := strconv.Atoi(port); err == nil {
		attrs = append(attrs, keyClientPort.Int(n))
	}
	return attrs
}

// clientOf returns what the client says of itself, cut and fit to print.
func clientOf(in *session.Inbound, s *session.Session) (name, version string) {
	if in.Era == mcp.Modern {
		var info struct {
			Name    string `json:"name"`
			Version string `json:"version"`
		}
		if in.Meta.ClientInfo != nil {
			_ = json.Unmarshal(in.Meta.ClientInfo, &info) // untrusted and optional: what cannot be read is empty
		}
		name, version = info.Name, info.Version
	} else if s != nil {
		if p := s.Peer(); p != nil {
			name, version = p.Client.Name, p.Client.Version
		}
	}
	return session.Printable(name, maxName), session.Printable(version, maxName)
}

// attributes adds what is known of a request at its end.
func (o *outcome) attributes(attrs []attribute.KeyValue, errorType string) []attribute.KeyValue {
	if errorType != "" {
		attrs = append(attrs, keyErrorType.String(errorType))
	}
	if o.err != nil {
		attrs = append(attrs, keyStatusCode.String(codeString(o.err.Code)))
	}
	if o.reject != "" {
		attrs = append(attrs, keyRejectReason.String(string(o.reject)))
	}
	if o.cause != "" {
		attrs = append(attrs, keyCancelCause.String(string(o.cause)))
	}
	if o.fate != session.FateUnknown {
		attrs = append(attrs, keyOutcome.String(o.fate.String()))
	}
	if o.drop != "" {
		attrs = append(attrs, keyDropReason.String(string(o.drop)))
	}
	return attrs
}
