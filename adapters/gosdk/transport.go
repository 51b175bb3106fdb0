package gosdk

import (
	"context"
	"encoding/json"
	"io"

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
	c := &connection{adapter: t.adapter, name: "stdio"}
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
	if req.IsCall() {
		if raw, err := json.Marshal(req.ID.Raw()); err == nil {
			m.id = adapt.ParseID(raw)
		}
	}
	extra := &sdk.RequestExtra{}
	c.adapter.arrivals.add(extra, m)
	req.Extra = extra
}

// Close implements [sdk.Connection].
func (c *connection) Close() error {
	end := mcp.CauseTransportClose
	if c.adapter.core.Closing() {
		end = mcp.CauseServerShutdown
	}
	c.adapter.sessions.ended(c, end)
	return c.Connection.Close()
}
