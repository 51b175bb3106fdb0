package mcpgo

import (
	"context"
	"encoding/json"
	"net/http"
	"runtime/debug"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
	sdk "github.com/mark3labs/mcp-go/server"
	"github.com/mark3labs/mcp-go/tracing"

	"github.com/vitrine-mcp/vitrine/internal/adapt"
	vitrine "github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// mcp-go has no middleware for all requests, but a tracer whose spans last as long as they, and
// whose context is the handler's. A request is made in the tracer, described by a hook, which
// knows id and params, and ended with the span.

// A request is one of mcp-go. It is used by one goroutine, that of the SDK.
type request struct {
	adapter *Adapter
	call    *adapt.Call
	method  string
	begun   bool
	settled bool // by a hook, or with an error
	failure error
	out     telemetry.Outcome
}

type (
	requestKey struct{}
	headerKey  struct{}
)

func requestOf(ctx context.Context) *request {
	r, _ := ctx.Value(requestKey{}).(*request)
	return r
}

// A propagator keeps the HTTP header for the tracer, which mcp-go calls next.
type propagator struct{}

// Extract implements [tracing.Propagator].
func (propagator) Extract(ctx context.Context, header http.Header) context.Context {
	if len(header) == 0 {
		return ctx
	}
	return context.WithValue(ctx, headerKey{}, header)
}

// Inject implements [tracing.Propagator]. The server sends no requests by HTTP.
func (propagator) Inject(context.Context, http.Header) {}

// A tracer makes a request of each span that mcp-go starts for one.
type tracer struct{ adapter *Adapter }

// Start implements [tracing.Tracer].
func (t tracer) Start(ctx context.Context, name string, kind tracing.SpanKind, _ ...tracing.Attribute) (context.Context, tracing.Span) {
	method, ok := strings.CutPrefix(name, "mcp.")
	if kind != tracing.SpanKindServer || !ok { // it is a handler's, and within the request's
		return tracing.NoopTracer().Start(ctx, name, kind)
	}
	x, how := adapt.ExchangeOf(ctx), adapt.Cancels{Disconnect: true}
	if c := connectionOf(ctx); c != nil {
		how.Connection, how.Bare = c.end, vitrine.CauseClientCancel
	} else if x != nil {
		how.Bare = vitrine.CauseClientCancel
	}
	r := &request{adapter: t.adapter, method: method, call: t.adapter.core.NewCall(ctx, x, how)}
	return context.WithValue(r.call, requestKey{}, r), span{r}
}

// A span ends its request.
type span struct{ request *request }

// SetAttributes implements [tracing.Span].
func (span) SetAttributes(...tracing.Attribute) {}

// RecordError implements [tracing.Span].
func (span) RecordError(error) {}

// SetStatus implements [tracing.Span]. mcp-go tells it of each error that it answers with,
// also where it calls no hook: for a method that it does not have.
func (s span) SetStatus(code tracing.StatusCode, description string) {
	if r := s.request; code == tracing.StatusError && !r.settled {
		r.settled = true
		r.out.Err = vitrine.NewError(vitrine.CodeMethodNotFound, "%s", description)
	}
}

// End implements [tracing.Span].
func (s span) End() {
	r := s.request
	r.begin(r.call, nil, nil)
	if !r.settled { // it unwinds a panic, of what has no middleware
		r.call.Operation().Panicked("outside of the handler of a tool, prompt or resource", debug.Stack())
		r.out.Err = adapt.ErrPanicked
	}
	r.call.End(r.out)
}

// before is called before the handler, and knows all of the request.
func (a *Adapter) before(ctx context.Context, id any, _ mcp.MCPMethod, message any) {
	if r := requestOf(ctx); r != nil {
		r.begin(ctx, id, message)
	}
}

// succeeded is called with the result.
func (a *Adapter) succeeded(ctx context.Context, _ any, method mcp.MCPMethod, _, result any) {
	r := requestOf(ctx)
	if r == nil {
		return
	}
	r.settled = true
	if tool, ok := result.(*mcp.CallToolResult); ok && tool != nil {
		r.call.Operation().Result(tool.IsError && !vitrine.IsCallerFault(r.failure), tool)
	}
	if method == mcp.MethodInitialize {
		a.initialized(ctx)
	}
}

// failed is called with the error, for a request that is refused early without before.
func (a *Adapter) failed(ctx context.Context, id any, _ mcp.MCPMethod, message any, err error) {
	r := requestOf(ctx)
	if r == nil {
		return
	}
	r.begin(ctx, id, message)
	r.settled = true
	r.out.Err = wireError(err)
	if rpc, ok := vitrine.AsError(err); ok {
		r.out.Err = rpc // what was meant; the code of a handler's error is always the same
	}
}

// wireError returns the error as mcp-go sends it.
func wireError(err error) *vitrine.Error {
	if vitrine.IsCallerFault(err) {
		return adapt.Plain(err)
	}
	if sent, ok := err.(interface{ ToJSONRPCError() mcp.JSONRPCError }); ok {
		details := sent.ToJSONRPCError().Error
		return vitrine.NewError(vitrine.Code(details.Code), "%s", details.Message)
	}
	return adapt.Plain(err)
}

// begin describes the request, once.
func (r *request) begin(ctx context.Context, id, message any) {
	if r.begun {
		return
	}
	r.begun = true
	x := adapt.ExchangeOf(ctx)
	raw, ok := x.Take(r.method)
	if !ok {
		raw = reencoded(id, message)
	}
	params := adapt.ReadParams(r.method, raw.Params)
	name, label := r.adapter.nameOf(ctx, r.method, params.Target)
	req := &middleware.Request{
		Route: middleware.NewRoute(r.method, name, label), ID: raw.ID, Method: r.method, Target: params.Target,
		Params: raw.Params, Peer: peerOf(ctx, params), Origin: message,
	}
	if req.Header = x.Header(); req.Header == nil {
		req.Header, _ = ctx.Value(headerKey{}).(http.Header)
	}
	var scope any
	if c := connectionOf(ctx); c != nil {
		scope = c
	} else {
		scope = x.Scope()
	}
	r.call.Begin(req, params, scope, raw.Bytes)
}

// reencoded returns a request as mcp-go has understood it.
func reencoded(id, message any) adapt.Raw {
	var raw adapt.Raw
	if data, err := json.Marshal(id); err == nil && id != nil {
		raw.ID = adapt.ParseID(data)
	}
	var decoded struct {
		Params json.RawMessage `json:"params"`
	}
	if data, err := json.Marshal(message); err == nil && json.Unmarshal(data, &decoded) == nil {
		raw.Params = []byte(decoded.Params)
	}
	return raw
}

// nameOf returns what is registered by a name, and the same if it can be a label.
func (a *Adapter) nameOf(ctx context.Context, method, name string) (route, label string) {
	ok := false
	switch method {
	case vitrine.MethodToolsCall:
		if ok = a.server.GetTool(name) != nil; !ok {
			if session, has := sdk.ClientSessionFromContext(ctx).(sdk.SessionWithTools); has {
				_, ok = session.GetSessionTools()[name]
			}
		}
	case vitrine.MethodPromptsGet:
		_, ok = a.server.ListPrompts()[name]
	case vitrine.MethodResourcesRead:
		if _, ok = a.server.ListResources()[name]; ok {
			return name, ""
		}
	}
	if !ok {
		return "", ""
	}
	return name, name
}
