package ask

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// A Call is a call whose handler may ask its client.
type Call struct {
	Asker   *Asker
	Request *middleware.Request
	Core    *session.Request
	// Ctx is the context of the handler. Its end ends the wait for answers.
	Ctx context.Context

	mu   sync.Mutex     // guards kept, and the rest of the Dialog
	kept jsontext.Value // the value of the last Keep, or nil
}

func (c *Call) keep(raw jsontext.Value) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept = raw
}

func (c *Call) keeps() jsontext.Value {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kept
}

// EncodeParams returns the JSON of the params of a request to a client; nil stands for none.
func EncodeParams(method string, params any) (jsontext.Value, error) {
	if params == nil {
		return nil, nil
	}
	raw, err := wire.Marshal(nil, params)
	if err != nil {
		return nil, fmt.Errorf("server: encode the params of %s: %w", method, err)
	}
	return raw, nil
}

// Send passes a request to the client through the chain of sending middlewares. deliver sends
// what comes out of the chain. Send recovers the panic of a middleware, so that it may run on a
// goroutine of its own.
func (c *Call) Send(
	ctx context.Context, method string, params jsontext.Value,
	deliver func(ctx context.Context, params jsontext.Value) (jsontext.Value, error),
) (value jsontext.Value, err error) {
	if c.Asker.sending == nil {
		return deliver(ctx, params)
	}
	defer func() {
		if v := recover(); v != nil {
			c.Core.ContainedPanic("sending middleware", v, debug.Stack())
			value, err = nil, fmt.Errorf("server: a middleware of requests to clients has panicked: %v", v)
		}
	}()
	result, err := c.Asker.sending(ctx, &middleware.Request{
		Route: middleware.NewRoute(method, "", ""), Method: method, Params: params, Header: c.Request.Header, Peer: c.Request.Peer,
		Principal: c.Request.Principal, ArrivedAt: time.Now(), Origin: &sentQuestion{deliver},
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
