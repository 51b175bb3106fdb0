package gosdk

import (
	"context"
	"encoding/json"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/adapt"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// Transport wraps a transport of the SDK for one connection, such as [sdk.StdioTransport]. With it the
// adapter knows the ids of requests, the reasons of the client's cancellations, and why the
// connection ended. Use the transport for one connection, like all transports of the SDK.
//
// The SDK does not tell a wrapped transport, such as [sdk.LoggingTransport], which revision was
// negotiated. So it takes batches in revisions without batches.
func (a *Adapter) Transport(next sdk.Transport) sdk.Transport { return &transport{a, next} }

type transport struct {
	adapter *Adapter
	next    sdk.Transport
}

// Connect implements [sdk.Transport].
func (t *transport) Connect(ctx context.Context) (sdk.Connection, error) {
	c := &connection{adapter: t.adapter, name: "stdio", pending: map[jsonrpc.ID]*sdk.RequestExtra{}}
	if _, ok := t.next.(*sdk.InMemoryTransport); ok {
		c.name = "memory"
	}
	var err error
	if c.principal, err = t.adapter.core.AuthenticateStream(ctx, c.name); err != nil {
		return nil, err
	}
	if c.Connection, err = t.next.Connect(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// SupportsProtocolVersion implements [sdk.ProtocolVersionSupporter].
func (t *transport) SupportsProtocolVersion(version string) bool {
	if next, ok := t.next.(sdk.ProtocolVersionSupporter); ok {
		return next.SupportsProtocolVersion(version)
	}
	return true
}

// A connection records the arrivals of messages for the SDK.
type connection struct {
	sdk.Connection
	adapter   *Adapter
	name      string // of the transport
	principal *auth.Principal

	mu      sync.Mutex // guards pending
	pending map[jsonrpc.ID]*sdk.RequestExtra
}

// Read implements [sdk.Connection].
func (c *connection) Read(ctx context.Context) (jsonrpc.Message, error) {
	msg, err := c.Connection.Read(ctx)
	if err != nil {
		end := mcp.CauseTransportError
		if err == io.EOF { // the SDK compares the error so
			end = mcp.CauseTransportClose
		}
		c.adapter.sessions.ended(c, end)
		return nil, err
	}
	if req, ok := msg.(*jsonrpc.Request); ok {
		c.note(req)
	}
	return msg, nil
}

// note records the arrival of a message. The SDK passes the Extra to its middlewares.
func (c *connection) note(req *jsonrpc.Request) {
	if req.Extra != nil {
		return
	}
	m := arrival{
		params: req.Params, bytes: len(req.Params), transport: c.name, scope: c, authenticated: true, principal: c.principal,
	}
	if req.Method == mcp.NotificationCancelled {
		c.adapter.core.NoticeCancelled(c, []byte(req.Params))
	}
	extra := &sdk.RequestExtra{}
	if req.IsCall() {
		if raw, err := json.Marshal(req.ID.Raw()); err == nil {
			m.id = adapt.ParseID(raw)
		}
		c.mu.Lock()
		if c.pending[req.ID] == nil { // else the SDK refuses the message
			c.pending[req.ID] = extra
			c.adapter.arrivals.Store(extra, m)
		}
		c.mu.Unlock()
	}
	req.Extra = extra
}

// Write implements [sdk.Connection]. It removes the arrival of an answered request, which may not have
// reached our middleware.
func (c *connection) Write(ctx context.Context, msg jsonrpc.Message) error {
	if response, ok := msg.(*jsonrpc.Response); ok {
		c.mu.Lock()
		c.adapter.arrivals.Delete(c.pending[response.ID])
		delete(c.pending, response.ID)
		c.mu.Unlock()
	}
	return c.Connection.Write(ctx, msg)
}

// Close implements [sdk.Connection].
func (c *connection) Close() error {
	end := mcp.CauseTransportClose
	if c.adapter.core.Closing() {
		end = mcp.CauseServerShutdown
	}
	c.adapter.sessions.ended(c, end)
	c.mu.Lock()
	for id, extra := range c.pending {
		c.adapter.arrivals.Delete(extra)
		delete(c.pending, id)
	}
	c.mu.Unlock()
	return c.Connection.Close()
}
