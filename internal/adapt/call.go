package adapt

import (
	"context"
	"errors"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// A Call is one request, from its arrival to the return of the SDK's handler. It is the context of
// the handler. Unlike the SDK's context it has a cause ([mcp.CauseOf]) and, after Begin, the span.
type Call struct {
	context.Context
	// Request is the request for middlewares. Begin sets it.
	Request *middleware.Request
	// Refused is the error of the answer if the server shuts down, or nil.
	Refused *mcp.Error
	// Stranger says that the request came around the authenticator: over a handler or a transport that
	// the adapter does not wrap. It is then refused.
	Stranger bool
	// Ambiguous says that the handler may read other arguments than a policy. The request is refused if
	// there are policies.
	Ambiguous bool

	adapter    *Adapter
	sdk        context.Context
	cancel     context.CancelCauseFunc
	stops      []func() bool
	begun      atomic.Pointer[begun]
	asked      atomic.Pointer[mcp.CancelError] // by the client
	subscribed atomic.Bool                     // Subscribe was called
	turnedAway atomic.Bool                     // Refusal returned Refused
	how        Cancels
	exchange   *Exchange
	id         callID
	arrivedAt  time.Time

	admission *admission // nil: policies were not asked yet
	reserved  bool       // there is a place for the record
	task      bool       // it runs the handler of a task
	arguments jsontext.Value
	failure   error // of Serve, or of the handler
	toolError bool
	expiry    *time.Timer
	expired   atomic.Bool // the token of the caller has expired
}

// begun is the part of a call that Begin makes.
type begun struct {
	ctx context.Context // has the values of the operation
	op  *telemetry.Operation
}

// Value implements [context.Context].
func (c *Call) Value(key any) any {
	if b := c.begun.Load(); b != nil {
		if key == (principalKey{}) {
			return c.Request.Principal
		}
		return b.ctx.Value(key)
	}
	return c.Context.Value(key)
}

// Cancels says how an SDK cancels the contexts of handlers.
type Cancels struct {
	// Bare is the meaning of a cancellation without a cause, or "" if that is not known.
	Bare mcp.Cause
	// Disconnect tells that a request is cancelled when its client disconnects. If the SDK does
	// not cancel it, the call does.
	Disconnect bool
	// Connection returns why the connection ended, or nil if it is open. It may be nil.
	Connection func() *mcp.CancelError
}

// NewCall begins a request. ctx is the SDK's context for the handler, x the HTTP exchange,
// or nil. The caller must call End.
func (a *Adapter) NewCall(ctx context.Context, x *Exchange, how Cancels) *Call {
	c := &Call{adapter: a, sdk: ctx, how: how, exchange: x, arrivedAt: time.Now()}
	// The SDK cancels its context without a cause. The handler's context is cancelled at the
	// same time with a cause.
	base := context.WithoutCancel(ctx)
	if x != nil && ExchangeOf(ctx) != x {
		base = context.WithoutCancel(valuesContext{ctx, x.values})
	}
	release := func() {}
	if deadline, ok := ctx.Deadline(); ok {
		base, release = context.WithDeadlineCause(base, deadline, mcp.ErrDeadline)
	}
	c.Context, c.cancel = context.WithCancelCause(base)
	c.stops = append(c.stops, func() bool { release(); return true },
		context.AfterFunc(ctx, func() { c.cancel(c.cause()) }))
	if x != nil && how.Disconnect {
		c.stops = append(c.stops, context.AfterFunc(x.request.Context(), func() {
			if x.Gone() {
				c.cancel(mcp.ErrClientDisconnected)
			}
		}))
	}
	if !a.enter(c) {
		c.Refused = mcp.NewError(mcp.CodeInternalError, "the server is shutting down").
			WithData(mcp.ErrorData{Reason: string(mcp.RejectShuttingDown)})
	}
	return c
}

// cause returns why the SDK cancelled the request. It is context.Canceled if that is not known.
func (c *Call) cause() error {
	cause := context.Cause(c.sdk)
	var known *mcp.CancelError
	switch {
	case errors.As(cause, &known):
		return known
	case errors.Is(cause, context.DeadlineExceeded):
		return mcp.ErrDeadline
	case errors.Is(cause, io.EOF):
		return mcp.ErrTransportClosed
	case cause != context.Canceled: // another error says more
		return &mcp.CancelError{Cause: mcp.CauseTransportError, Detail: logline.Printable(cause.Error(), maxReason)}
	}
	if asked := c.asked.Load(); asked != nil {
		return asked
	}
	if c.how.Disconnect && c.exchange.Gone() {
		return mcp.ErrClientDisconnected
	}
	if c.how.Connection != nil {
		if end := c.how.Connection(); end != nil {
			return end
		}
	}
	if c.how.Bare != "" {
		return &mcp.CancelError{Cause: c.how.Bare}
	}
	return cause
}

// Begin begins the operation of telemetry. scope is the session or the connection in which the id is
// unique, or nil. bytes is the size of the message, or 0 if it is not known.
func (c *Call) Begin(req *middleware.Request, params Params, scope any, bytes int) {
	req.ArrivedAt = c.arrivedAt
	c.Request, c.arguments = req, params.Arguments
	info := telemetry.Info{
		Method: req.Method, Target: req.Route.Target, ID: req.ID, ArrivedAt: req.ArrivedAt,
		Version: req.Peer.Version, Transport: req.Peer.Transport, RemoteAddr: req.Peer.Addr,
		SessionID: req.Peer.SessionID, Header: req.Header, Principal: req.Principal,
		Arguments: params.Arguments, Bytes: bytes,
	}
	if len(params.trace) > 0 {
		info.Carrier = params.trace
	}
	if deadline, ok := c.Deadline(); ok {
		info.Deadline = deadline
	}
	if client := req.Client(); client.Name != "" {
		info.Client = &client
	}
	if strings.HasPrefix(req.Method, "resources/") {
		info.URI = req.Target
	}
	if info.Transport == "stdio" || info.Transport == "memory" {
		info.Network = "pipe"
	}
	ctx, op := c.adapter.Telemetry.Begin(c.Context, info)
	c.begun.Store(&begun{ctx, op})
	if scope != nil && !req.ID.IsZero() {
		c.id = callID{scope, req.ID.Key()}
		c.adapter.identify(c)
	}
}

// Subscribe says that the SDK now serves the request as a subscription. After a shutdown the subscription ends at
// once. Call it after Begin, for requests that are not refused.
func (c *Call) Subscribe() {
	c.subscribed.Store(true)
	c.Operation().Acknowledged()
	if c.adapter.Closing() { // Shutdown has already ended the other subscriptions
		c.cancel(mcp.ErrServerShutdown)
	}
	c.endWithToken()
}

// NewTask begins the call that runs the handler of a task, which c has answered with the task. Its span is a child of that of
// c. ctx is the SDK's context for the handler. The caller must call End. c may have ended.
func (c *Call) NewTask(ctx context.Context) *Call {
	t := c.adapter.NewCall(ctx, nil, Cancels{})
	t.task, t.admission, t.Ambiguous, t.Stranger = true, c.admission, c.Ambiguous, c.Stranger
	req := *c.Request // its middlewares may change it
	t.Begin(&req, Params{Arguments: c.arguments}, nil, 0)
	return t
}

// endWithToken ends a subscription over HTTP when the token of its caller expires.
func (c *Call) endWithToken() {
	if p := c.Request.Principal; c.exchange != nil && p != nil && !p.Expires.IsZero() {
		c.expiry = time.AfterFunc(time.Until(p.Expires), func() {
			c.expired.Store(true)
			c.adapter.guard.streamExpired(session.StreamListen, p)
			c.cancel(errTokenExpired)
		})
	}
}

// Operation returns the operation of telemetry. It is nil before Begin.
func (c *Call) Operation() *telemetry.Operation {
	if b := c.begun.Load(); b != nil {
		return b.op
	}
	return nil
}

// ErrPanicked is the error of the answer after a panic of the handler. It does not describe the
// panic; telemetry does.
var ErrPanicked = mcp.NewError(mcp.CodeInternalError, "internal error")

// Serve runs the middlewares and the handler. It contains a panic and returns [ErrPanicked] then.
// Call it after Begin, and again if the SDK asks the handler once more.
func (c *Call) Serve(ctx context.Context, handler middleware.Handler) (result mcp.Result, err error) {
	op, returned := c.Operation(), false
	defer func() {
		if !returned { // recover returns nil for runtime.Goexit, which continues
			op.Panicked(recover(), debug.Stack())
			result, err = nil, ErrPanicked
		}
	}()
	if err := c.Refusal(); err != nil {
		returned = true
		return nil, err
	}
	inner := func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
		defer context.AfterFunc(ctx, func() { c.deadlineOf(ctx) })()
		result, err := handler(ctx, req)
		c.deadlineOf(ctx)
		return result, err
	}
	serve := middleware.Handler(inner)
	if c.adapter.chain != nil {
		serve = c.adapter.chain(serve)
	}
	if c.adapter.Authorizes() && slices.Contains(lists, c.Request.Method) {
		serve = c.adapter.guard.authorize(serve)
	}
	result, err = serve(ctx, c.Request)
	returned = true
	return result, err
}

// Refusal returns the error of a request that may not be served. Serve calls it; call it before an SDK serves a request
// without Serve.
func (c *Call) Refusal() error {
	if c.Refused != nil {
		c.turnedAway.Store(true)
		return c.Refused
	}
	if c.Stranger {
		return &mcp.Refusal{Status: 401, Reason: "unauthenticated", By: byAuthenticator}
	}
	if err := c.Admit(); err != nil {
		return err
	}
	return c.reserve()
}

// Failed reports the error of [Call.Serve] to telemetry. err may be nil.
func (c *Call) Failed(err error) {
	c.failure = err
	if err == nil || err == error(ErrPanicked) || c.turnedAway.Load() { // telemetry has these already
		return
	}
	if sdk := (*SDKError)(nil); errors.As(err, &sdk) {
		err = sdk.Err
	}
	c.Operation().Error(err)
}

// Result reports the result of a tool to telemetry.
func (c *Call) Result(isError bool, result any) {
	c.toolError = isError
	c.Operation().Result(isError, result)
}

// deadlineOf records that the deadline of a middleware's context has passed.
func (c *Call) deadlineOf(ctx context.Context) {
	if c.Err() == nil && ctx.Err() != nil && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		c.Operation().Cancelled(mcp.CauseDeadline, "")
	}
}

// End ends the call. Call it after Begin. An answer that the SDK has taken counts as sent.
func (c *Call) End(out telemetry.Outcome) {
	if c.sdk.Err() != nil {
		c.cancel(c.cause()) // if the context ended just now
	}
	if c.turnedAway.Load() {
		out.Rejected, out.Err = mcp.RejectShuttingDown, c.Refused
	}
	if c.subscribed.Load() {
		out.SubscriptionEnd = mcp.EndError
		if cause, ok := mcp.CauseOf(c.Context); ok {
			out.SubscriptionEnd = mcp.EndOf(cause)
		}
		if c.expired.Load() {
			out.SubscriptionEnd = mcp.EndTokenExpired
		}
	}
	if d := c.admission; d != nil && d.decision != nil {
		c.Operation().Decided(d.decision.Rule, session.EffectOf(d.decision), d.decision.Reason)
	}
	c.record(out)
	c.Operation().End(out)
	for _, stop := range c.stops {
		stop()
	}
	if c.expiry != nil {
		c.expiry.Stop()
	}
	c.cancel(nil)
	c.adapter.leave(c)
}

// Told returns the answer for an error, as our server makes it: the result of a tool or an error.
func (c *Call) Told(err error) (*mcp.CallToolResult, *mcp.Error) {
	switch e := wire.ForCaller(err).(type) {
	case *mcp.Error:
		return nil, e
	case *mcp.Refusal:
		return nil, e.RPC()
	}
	sentence, tool := "internal error", c.Request.Method == mcp.MethodToolsCall
	if tool {
		sentence = "the tool failed"
	}
	if made, ok := mcp.AsToolError(err); ok {
		sentence = made.Text
	} else if id := c.Operation().TraceID(); id != "" {
		sentence += "; its operator can look it up by the trace id " + id
	}
	switch {
	case tool:
		return mcp.ToolErrorResult(sentence), nil
	case mcp.IsCallerFault(err):
		return nil, mcp.NewError(mcp.CodeInvalidParams, "%s", sentence)
	}
	return nil, mcp.NewError(mcp.CodeInternalError, "%s", sentence)
}
