package middleware_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// needScope lets only callers through that have a scope.
func needScope(scope string) middleware.Middleware {
	return func(next middleware.Handler) middleware.Handler {
		return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
			if !req.Principal.HasScope(scope) {
				return middleware.Refuse(mcp.Refusal{Status: 403, Reason: "scope", By: "need_scope", Message: "you need " + scope})
			}
			return next(ctx, req)
		}
	}
}

// A unit test of a middleware needs a request that is built by hand, and neither a server
// nor a client.
func ExampleMiddleware() {
	done := func(context.Context, *middleware.Request) (mcp.Result, error) {
		return mcp.ToolErrorResult("done"), nil
	}
	h := needScope("files:write")(done)
	_, stranger := h(context.Background(), &middleware.Request{})
	_, ann := h(context.Background(), &middleware.Request{Principal: &auth.Principal{Subject: "ann", Scopes: []string{"files:write"}}})
	fmt.Println(stranger)
	fmt.Println(ann)

	// Output:
	// refused: scope: you need files:write
	// <nil>
}

// A limit for each registration and caller. A refused caller learns when to retry.
func ExampleRefuse() {
	type key struct{ route, principal string }
	limit := func(most int, every time.Duration, now func() time.Time) middleware.Middleware {
		var mu sync.Mutex
		var begin time.Time
		calls := map[key]int{}
		return func(next middleware.Handler) middleware.Handler {
			return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
				mu.Lock()
				if now().Sub(begin) >= every {
					begin, calls = now(), map[key]int{}
				}
				k := key{req.Route.Key, req.Principal.Key()}
				calls[k]++
				tooMany, wait := calls[k] > most, every-now().Sub(begin)
				mu.Unlock()
				if tooMany {
					return middleware.Refuse(mcp.Refusal{Status: 429, Reason: "rate", By: "limit", RetryAfter: wait})
				}
				return next(ctx, req)
			}
		}
	}

	now := time.Unix(0, 0)
	h := limit(1, time.Minute, func() time.Time { return now })(
		func(context.Context, *middleware.Request) (mcp.Result, error) { return &mcp.CallToolResult{}, nil })
	req := &middleware.Request{Route: middleware.NewRoute(mcp.MethodToolsCall, "search", "search")}
	for range 2 {
		_, err := h(context.Background(), req)
		if refusal, ok := mcp.AsRefusal(err); ok {
			fmt.Println("refused:", refusal.Status, "ask again after", refusal.RetryAfter)
		}
		now = now.Add(20 * time.Second)
	}

	// Output:
	// refused: 429 ask again after 40s
}

// named is a middleware that says when it is called.
func named(name string) middleware.Middleware {
	return func(next middleware.Handler) middleware.Handler {
		return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
			fmt.Println("before", name)
			defer fmt.Println("after", name)
			return next(ctx, req)
		}
	}
}

func ExampleChain() {
	h := middleware.Chain(named("outer"), named("inner"))(
		func(context.Context, *middleware.Request) (mcp.Result, error) { return &mcp.CallToolResult{}, nil })
	_, _ = h(context.Background(), &middleware.Request{})

	// Output:
	// before outer
	// before inner
	// after inner
	// after outer
}

func ExampleFor() {
	h := middleware.For([]string{"delete"}, named("audit"))(
		func(_ context.Context, req *middleware.Request) (mcp.Result, error) {
			fmt.Println("handler of", req.Target)
			return &mcp.CallToolResult{}, nil
		})
	for _, tool := range []string{"list", "delete"} {
		_, _ = h(context.Background(), &middleware.Request{Route: middleware.NewRoute(mcp.MethodToolsCall, tool, tool), Target: tool})
	}

	// Output:
	// handler of list
	// before audit
	// handler of delete
	// after audit
}
