package mcp

import "github.com/go-json-experiment/json/jsontext"

// Meta is the _meta member of a message: keys with an optional reverse-DNS
// prefix, and any JSON value.
type Meta map[string]any

// Keys of _meta that the protocol defines for requests and results.
const (
	MetaProtocolVersion    = "io.modelcontextprotocol/protocolVersion"
	MetaClientCapabilities = "io.modelcontextprotocol/clientCapabilities"
	MetaClientInfo         = "io.modelcontextprotocol/clientInfo"
	MetaLogLevel           = "io.modelcontextprotocol/logLevel"
	MetaServerInfo         = "io.modelcontextprotocol/serverInfo"
	MetaSubscriptionID     = "io.modelcontextprotocol/subscriptionId"
	MetaProgressToken      = "progressToken"
	MetaTraceParent        = "traceparent"
	MetaTraceState         = "tracestate"
	MetaBaggage            = "baggage"
)

// A ProgressToken is a string or an integer that a client chose for the progress
// notifications of one request, kept as JSON. Nil means that the client wants none.
type ProgressToken = jsontext.Value

// A Result is the result of a request's handler. It encodes to a JSON
// object. Embed [ResultMeta], by value, to implement it; the server adds the members that
// the protocol revision of the caller wants, such as resultType.
type Result interface {
	// ResultMetadata returns the result's own _meta member, which the server may
	// extend.
	ResultMetadata() *Meta
}

// ResultMeta gives a result its _meta member and makes it a [Result].
type ResultMeta struct {
	Meta Meta `json:"_meta,omitempty"`
}

// ResultMetadata implements [Result].
func (m *ResultMeta) ResultMetadata() *Meta { return &m.Meta }

// An EmptyResult carries nothing but metadata.
type EmptyResult struct{ ResultMeta }
