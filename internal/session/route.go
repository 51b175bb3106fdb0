package session

import (
	"context"
	"time"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/forwarded"
	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/share"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// An Inbound is one decoded message and what its transport knows about it. It is
// immutable once it was handed to the core.
type Inbound struct {
	wire.Envelope
	Era mcp.Era
	// Version is what the message itself or its HTTP header says; for a legacy
	// message without one it is the version that the session negotiated.
	Version mcp.Version
	// Conn describes the connection that the message came over.
	Conn *Conn
	// Values carries the values (not the cancellation) that the handler's context
	// inherits, such as an ambient span. Nil means none.
	Values context.Context
	// Header holds the HTTP header of the exchange, or nil.
	Header map[string][]string
	// Refusal is set by a transport whose own rules refuse the request. The request
	// is admitted, so that it is counted and traced, and answered with this error.
	Refusal *mcp.Error
	// Bytes is the size of the frame.
	Bytes int
	// Caller is the record of the sender. The transport holds a reference to it while it hands
	// over the message. If it is nil the core finds it, by the session or the connection.
	Caller *share.Caller
	// Turn is the turn that the transport has taken for the message, or nil. The core gives it back
	// before the request waits, or its handler is called.
	Turn *share.Turn
	// Body is what an HTTP body holds of the budget for messages; nil is nothing. Its requests
	// hold it too.
	Body *Body
	// Restarted is what work belongs to that begins again with this request, see [Core.Restart]. It is the
	// server's, and nil for what a client has sent.
	Restarted any

	request  *Request // that was made of it, or nil
	batch    *batch   // that the request is one of, or nil
	repeated bool     // the batch had its id before
}

// Request returns the request that the core has made of the message. It is nil for a message that is no
// request, and before the core has received it.
func (in *Inbound) Request() *Request { return in.request }

// A Conn describes a connection, in the terms of OpenTelemetry's network
// attributes. It is immutable.
type Conn struct {
	Transport       string // "http", "stdio", "memory": the label of our own metrics
	Network         string // network.transport: "tcp", "pipe"
	Protocol        string // network.protocol.name: "http" or ""
	ProtocolVersion string // network.protocol.version: "1.1", "2" or ""
	RemoteAddr      string // client.address and client.port as host:port; or only the address, or ""
	// Proxies tells which proxies the connection may come through, and Peer is its other end as
	// host:port; nil and "" if there are none. See [Conn.Via].
	Proxies *forwarded.Proxies
	Peer    string
	// Principal is on whose behalf the peer speaks, see [Core.Authenticate].
	Principal *auth.Principal

	session *Session // of a byte stream; nil before it is connected, and for HTTP
}

// Via returns what trusted proxies say of the way of a message with this HTTP header: the Via headers,
// and the addresses that it was forwarded for. Both are empty without such proxies. c may be nil.
func (c *Conn) Via(header map[string][]string) (via, addresses string) {
	if c == nil || c.Proxies == nil {
		return "", ""
	}
	via, addresses = c.Proxies.Via(c.Peer, header)
	return logline.Printable(via, maxViaText), logline.Printable(addresses, maxViaText)
}

// maxViaText bounds the texts of [Conn.Via], in bytes.
const maxViaText = 256

// principal returns the principal of the peer; c may be nil.
func (c *Conn) principal() *auth.Principal {
	if c == nil {
		return nil
	}
	return c.Principal
}

// A Dispatcher finds out how messages are served. Its methods are called from
// many goroutines.
type Dispatcher interface {
	// Route returns how a request will be served. It never returns nil: a request
	// that cannot be served gets a route that answers with the reason.
	Route(in *Inbound, s *Session) *Route
	// Notify handles a notification that the core itself has no use for.
	Notify(ctx context.Context, in *Inbound, s *Session)
	// Encode appends the JSON of a result in the form that the request's revision wants. If
	// rest is not nil it is the end of the result, shared with other answers, and has
	// one closing brace more: that of the answer.
	Encode(dst []byte, r *Request, result mcp.Result) (_, rest []byte, err error)
}

// A Handle serves one request. It runs on a goroutine of its own.
type Handle func(ctx context.Context, r *Request) (mcp.Result, error)

// A Route is how the requests of one method, or of one tool, are served. It is
// immutable once requests use it.
type Route struct {
	Series *Series
	Handle Handle
	// Deadline bounds a request from its admission on, its time in the queue included.
	// Zero means the core's default; the core's maximum holds in any case.
	Deadline time.Duration
	// Registration is what the server knows of the route, for authorization and rules of
	// admission.
	Registration any
	// Class is a concurrency limit that several routes may share, or nil.
	Class *Class
	// YieldsClass lets the slot of the class go while the handler waits for its client.
	YieldsClass bool
	// Streams says that a request lasts as long as there is something to tell its client.
	Streams bool
	// Restartable says that the work of a request may begin again at another process, see [Core.Restart].
	Restartable bool
	// Handshake marks initialize: it cannot be cancelled, and on a byte stream nothing
	// behind it is read before it is settled.
	Handshake bool
	// Subscription marks a request that stays open once its handler has acknowledged it
	// (see [Request.Acknowledge]).
	Subscription bool
	// Control marks a request about the connection itself (initialize, ping, server/discover,
	// tasks/cancel). It has slots of its own, and none of its session and its class.
	Control bool
	// BeforeInitialize allows the request in a legacy session that has not finished
	// its handshake (initialize, ping).
	BeforeInitialize bool
	// Refused says that the route answers with an error which does not depend on the target.
	Refused bool
}

// Refuse returns a copy of the route that answers every request with err. Nothing
// waits for a handshake that is refused.
func (rt *Route) Refuse(err error) *Route {
	c := *rt
	c.Class, c.Handshake, c.Subscription, c.Refused = nil, false, false, true
	c.Handle = func(context.Context, *Request) (mcp.Result, error) { return nil, err }
	return &c
}

// deadline returns how long a request of the route may take, and the name of the limit
// that says so; "" if it is the route's own.
func (rt *Route) deadline(l *limits.Limits) (d time.Duration, limit string) {
	d = rt.Deadline
	if d == 0 {
		d, limit = l.RequestTimeout, limits.NameRequestTimeout
	}
	if d > l.MaxRequestTimeout {
		d, limit = l.MaxRequestTimeout, limits.NameMaxRequestTimeout
	}
	return d, limit
}
