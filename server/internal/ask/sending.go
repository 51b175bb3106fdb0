package ask

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// A sentQuestion is the Origin of a request in the chain of sending middlewares.
type sentQuestion struct {
	deliver func(ctx context.Context, params jsontext.Value) (jsontext.Value, error)
}

// newSendingChain returns the chain of sending middlewares, or nil if there are none.
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
