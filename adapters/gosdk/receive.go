package gosdk

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"runtime/debug"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/adapt"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// receive is the middleware of the SDK.
func (a *Adapter) receive(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		session, ok := req.GetSession().(*sdk.ServerSession)
		if !ok {
			return next(ctx, method, req)
		}
		m := a.arrivalOf(method, req)
		if strings.HasPrefix(method, "notifications/") {
			return a.notified(ctx, next, method, req, session, m)
		}
		return a.serve(ctx, next, method, req, session, m)
	}
}

// serve serves a request.
func (a *Adapter) serve(ctx context.Context, next sdk.MethodHandler, method string, req sdk.Request,
	session *sdk.ServerSession, m arrival) (result sdk.Result, err error) {
	params, agreed := adapt.ReadParams(method, m.params)
	if !agreed { // middlewares decide about what the SDK has read
		m.params = reencoded(req)
		params, agreed = adapt.ReadDecoded(method, m.params)
	}
	request := a.request(ctx, method, req, session, m, params)
	modern := request.Peer.Era == mcp.Modern
	call := a.core.NewCall(ctx, m.exchange, adapt.Cancels{Bare: mcp.CauseClientCancel, Disconnect: modern})
	call.Stranger, call.Ambiguous = a.core.Authenticates() && !m.authenticated, !agreed
	call.Begin(request, params, m.scope, m.bytes)
	var out telemetry.Outcome
	defer func() { call.End(out) }()

	var inner served
	ours, failure := call.Serve(call, func(ctx context.Context, _ *middleware.Request) (mcp.Result, error) {
		if method == mcp.MethodSubscriptionsListen {
			call.Subscribe()
		}
		inner.result, inner.err = next(ctx, method, req)
		a.names.learn(inner.result)
		return inner.convert(method, a.core.Chained(method))
	})
	result, err = inner.settle(call, ours, failure, a.core.Chained(method))
	call.Failed(failure)
	if err != nil {
		out.Err = wireError(err)
	}
	if refusal, ok := mcp.AsRefusal(failure); ok {
		out.Err = refusal.RPC() // telemetry recognizes it as a refusal
	}
	if tool, ok := result.(*sdk.CallToolResult); ok && tool != nil {
		call.Result(tool.IsError && !mcp.IsCallerFault(failure), tool)
	}
	if initialized, ok := result.(*sdk.InitializeResult); ok && initialized != nil {
		a.sessions.opened(a.core, session, m, request, mcp.Version(initialized.ProtocolVersion))
	}
	return result, err
}

// notified serves a notification, which has a span and a duration. Our middlewares do not run, because
// a notification has no answer.
func (a *Adapter) notified(ctx context.Context, next sdk.MethodHandler, method string, req sdk.Request,
	session *sdk.ServerSession, m arrival) (result sdk.Result, err error) {
	if params, ok := req.GetParams().(*sdk.CancelledParams); ok && params != nil {
		if id, err := json.Marshal(params.RequestID); err == nil {
			a.core.Cancelling(m.scope, adapt.ParseID(id), params.Reason)
		}
	}
	params, _ := adapt.ReadDecoded(method, m.params)
	described := a.request(ctx, method, req, session, m, params)
	ctx, end := a.core.Telemetry.Notification(m.exchange.Values(ctx), adapt.Notification(described, params, m.exchange))
	defer end()
	defer func() {
		if v := recover(); v != nil {
			slog.ErrorContext(ctx, "a handler of a notification has panicked", "method", method, "panic", v, "stack", string(debug.Stack()))
			result, err = nil, adapt.ErrPanicked
		}
	}()
	return next(ctx, method, req)
}

// request describes a request to middlewares and telemetry.
func (a *Adapter) request(ctx context.Context, method string, req sdk.Request,
	session *sdk.ServerSession, m arrival, params adapt.Params) *middleware.Request {
	r := &middleware.Request{
		ID: m.id, Method: method, Target: params.Target, Params: m.params, Header: m.exchange.Header(), Origin: req,
		Principal: m.principal,
		Peer:      middleware.Peer{Transport: m.transport, SessionID: session.ID(), Version: params.Version},
	}
	known := a.sessions.peer(session)
	if r.Peer.Version == "" {
		r.Peer.Version = known.Version
	}
	r.Peer.Era, _ = r.Peer.Version.Era()
	if r.Peer.Era == mcp.Legacy {
		r.Peer.Client, r.Peer.Capabilities = known.Client, known.Capabilities
	}
	label := a.names.label(ctx, session, req.GetExtra(), method, params.Target)
	r.Route = middleware.NewRoute(method, label, label)
	extra := req.GetExtra()
	if extra == nil {
		return r
	}
	if r.Header == nil {
		r.Header = extra.Header
	}
	if r.Peer.Version == "" {
		r.Peer.Version = mcp.Version(extra.Header.Get("Mcp-Protocol-Version"))
	}
	if posted := m.exchange.Request(); posted != nil {
		r.Peer.Addr = posted.RemoteAddr
	}
	if token := extra.TokenInfo; token != nil && token.UserID != "" && !m.authenticated {
		r.Principal = &auth.Principal{
			Subject: token.UserID, Scopes: token.Scopes, Expires: token.Expiration, Claims: token.Extra,
		}
	}
	return r
}

// wireError returns the error as the SDK sends it.
func wireError(err error) *mcp.Error {
	var wire *jsonrpc.Error
	if !errors.As(err, &wire) {
		return adapt.Plain(err)
	}
	e := mcp.NewError(mcp.Code(wire.Code), "%s", err.Error())
	if err == error(wire) { // the message without the prefix of Error
		e.Message = wire.Message
	}
	if len(wire.Data) > 0 {
		e.Data = wire.Data
	}
	return e
}
