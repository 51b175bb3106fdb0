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

// mcp-go has no middleware for all requests, but it has a tracer. Its span begins and ends with the
// request, and its context is the context of the handler. So the tracer makes a request, a hook
// with id and params describes it, and the end of the span ends it.

// A request is a request of mcp-go. Only the goroutine that serves it uses it. The handler of a task has a request of its
// own; see beginTask.
type request struct {
	adapter *Adapter
	call    *adapt.Call
	method  string
	begun   bool
	task    bool // mcp-go answers it with a task; set before the goroutine of the task begins
	settled bool // a hook or an error has settled it
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

// A propagator puts the HTTP header into the context for the tracer.
type propagator struct{}

// Extract implements [tracing.Propagator].
func (propagator) Extract(ctx context.Context, header http.Header) context.Context {
	if len(header) == 0 {
		return ctx
	}
	return context.WithValue(ctx, headerKey{}, header)
}

// Inject implements [tracing.Propagator]. It does nothing, because the server sends no HTTP requests.
func (propagator) Inject(context.Context, http.Header) {}

// A tracer makes a request for each span of a request.
type tracer struct{ adapter *Adapter }

// Start implements [tracing.Tracer].
func (t tracer) Start(ctx context.Context, name string, kind tracing.SpanKind, _ ...tracing.Attribute) (context.Context, tracing.Span) {
	method, ok := strings.CutPrefix(name, "mcp.")
	if kind != tracing.SpanKindServer || !ok { // it is the span of a handler
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

// SetStatus implements [tracing.Span]. mcp-go calls it for each error that it answers with. For an
// unknown method it calls no hook.
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
	if !r.settled { // a panic outside of our middlewares
		r.call.Operation().Panicked("outside of the handler of a tool, prompt or resource", debug.Stack())
		r.out.Err = adapt.ErrPanicked
	}
	r.call.End(r.out)
}

// before is a hook with id and params that mcp-go calls before the handler.
func (a *Adapter) before(ctx context.Context, id any, method mcp.MCPMethod, message any) {
	r := requestOf(ctx)
	if r == nil {
		return
	}
	r.begin(ctx, id, message)
	if method == mcp.MethodSubscriptionsListen {
		r.call.Subscribe()
	}
}

// succeeded is a hook with the result.
func (a *Adapter) succeeded(ctx context.Context, _ any, method mcp.MCPMethod, _, result any) {
	r := requestOf(ctx)
	if r == nil {
		return
	}
	r.settled = true
	if tool, ok := result.(*mcp.CallToolResult); ok && tool != nil {
		r.succeed(tool)
	}
	if method == mcp.MethodInitialize {
		a.initialized(ctx)
	}
}

// failed is a hook with the error. For a request that is refused early, before was not called.
func (a *Adapter) failed(ctx context.Context, id any, _ mcp.MCPMethod, message any, err error) {
	r := requestOf(ctx)
	if r == nil {
		return
	}
	r.begin(ctx, id, message)
	r.settled = true
	r.fail(err)
}

// succeed reports the result of a tool.
func (r *request) succeed(result *mcp.CallToolResult) {
	r.call.Result(result.IsError && !vitrine.IsCallerFault(r.failure), result)
}

// fail sets the error of the answer.
func (r *request) fail(err error) {
	r.out.Err = wireError(err)
	if rpc, ok := vitrine.AsError(err); ok {
		r.out.Err = rpc // mcp-go answers with another code
	}
	if refusal, ok := vitrine.AsRefusal(r.failure); ok {
		r.out.Err = refusal.RPC() // mcp-go answers as if there were no such tool
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

// begin describes the request. Later calls do nothing.
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
	params, agreed := adapt.ReadDecoded(r.method, raw.Params)
	r.call.Ambiguous = !agreed
	name, label := r.adapter.nameOf(ctx, r.method, params.Target)
	req := &middleware.Request{
		Route: middleware.NewRoute(r.method, name, label), ID: raw.ID, Method: r.method, Target: params.Target,
		Params: raw.Params, Peer: peerOf(ctx, params), Principal: principalOf(ctx), Origin: message,
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

// reencoded encodes the request that mcp-go has decoded.
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

// nameOf returns the registered name for the route, and for labels. Names of resources are no labels.
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
