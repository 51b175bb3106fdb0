package ask

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

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

// Send puts a question to the client through the chain, by way of deliver. It may run on
// a goroutine of its own, and contains the panic of a middleware.
func (d *Dialog) Send(
	ctx context.Context, method string, params jsontext.Value,
	deliver func(ctx context.Context, params jsontext.Value) (jsontext.Value, error),
) (value jsontext.Value, err error) {
	if d.Asker.sending == nil {
		return deliver(ctx, params)
	}
	defer func() {
		if v := recover(); v != nil {
			d.Core.ContainedPanic("sending middleware", v, debug.Stack())
			value, err = nil, fmt.Errorf("server: a middleware of requests to clients has panicked: %v", v)
		}
	}()
	result, err := d.Asker.sending(ctx, &middleware.Request{
		Route: middleware.NewRoute(method, "", ""), Method: method, Params: params, Header: d.Request.Header, Peer: d.Request.Peer,
		Principal: d.Request.Principal, ArrivedAt: time.Now(), Origin: &sentQuestion{deliver},
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
