package server

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// WithSendingMiddleware appends to the chain that wraps every request of the server to a
// client: what [Call.Elicit], [Call.Sample], [Call.Roots] and [Call.CallClient] ask. It is a
// chain of its own, because a middleware that limits or checks what callers do must not
// do so to what the server itself sends. The first is the outermost.
//
// The request has the method and params of the question, the peer and the principal of the
// call that asks, and no ID yet. A middleware may pass on a copy with other params. The
// result is a [*mcp.ClientResult]; a middleware may answer by itself with one. Where the
// question leaves with the answer of the call, to be answered with the next request, the
// error is [mcp.ErrInputRequired], which is to be passed on.
func WithSendingMiddleware(middlewares ...middleware.Middleware) Option {
	return optionFunc(func(c *config) { c.sending = append(c.sending, middlewares...) })
}

// A question that is sent is on its way through the chain. It is the origin of its request.
type sentQuestion struct {
	deliver func(ctx context.Context, params jsontext.Value) (jsontext.Value, error)
}

// newSendingChain builds the chain once; nil without middlewares.
func newSendingChain(middlewares []middleware.Middleware) middleware.Handler {
	if len(middlewares) == 0 {
		return nil
	}
	return middleware.Chain(middlewares...)(func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
		question, ok := req.Origin.(*sentQuestion)
		if !ok {
			return nil, fmt.Errorf("server: a middleware has passed on a request without the Origin of the one that it was given")
		}
		value, err := question.deliver(ctx, req.Params)
		if err != nil {
			return nil, err
		}
		return &mcp.ClientResult{Value: value}, nil
	})
}

// send puts a question to the client through the chain, by way of deliver. It may run on
// a goroutine of its own, and contains the panic of a middleware.
func (c *Call) send(
	ctx context.Context, method string, params jsontext.Value,
	deliver func(ctx context.Context, params jsontext.Value) (jsontext.Value, error),
) (value jsontext.Value, err error) {
	if c.server.sending == nil {
		return deliver(ctx, params)
	}
	defer func() {
		if v := recover(); v != nil {
			c.core.ContainedPanic("sending middleware", v, debug.Stack())
			value, err = nil, fmt.Errorf("server: a middleware of requests to clients has panicked: %v", v)
		}
	}()
	result, err := c.server.sending(ctx, &middleware.Request{
		Route: middleware.NewRoute(method, "", ""), Method: method, Params: params, Header: c.Header, Peer: c.Peer,
		Principal: c.Principal, ArrivedAt: time.Now(), Origin: &sentQuestion{deliver},
	})
	if err != nil {
		return nil, err
	}
	answer, ok := result.(*mcp.ClientResult)
	if !ok || answer == nil {
		return nil, fmt.Errorf("server: a middleware of requests to clients has answered %s with a %T", method, result)
	}
	return answer.Value, nil
}
