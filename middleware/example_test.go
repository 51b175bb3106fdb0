package middleware_test

import (
	"context"
	"fmt"
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

// A tool that is being repaired. A refused caller learns when to retry.
func ExampleRefuse() {
	repair := func(middleware.Handler) middleware.Handler {
		return func(context.Context, *middleware.Request) (mcp.Result, error) {
			return middleware.Refuse(mcp.Refusal{Status: 503, Reason: "repair", By: "repair", RetryAfter: time.Hour})
		}
	}
	h := middleware.For([]string{"search"}, repair)(
		func(context.Context, *middleware.Request) (mcp.Result, error) { return &mcp.CallToolResult{}, nil })
	for _, tool := range []string{"list", "search"} {
		_, err := h(context.Background(), &middleware.Request{Route: middleware.NewRoute(mcp.MethodToolsCall, tool, tool)})
		if refusal, ok := mcp.AsRefusal(err); ok {
			fmt.Println(tool, "is refused:", refusal.Status, "ask again after", refusal.RetryAfter)
		}
	}

	// Output:
	// search is refused: 503 ask again after 1h0m0s
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

// A policy on a server of another SDK.
func ExampleAuthorize() {
	policy := auth.PolicyFunc(func(_ context.Context, p *auth.Principal, op *auth.Operation) auth.Decision {
		if op.Name == "delete" && !p.HasScope("admin") {
			return auth.Decision{Effect: auth.Deny, Rule: "admins"}
		}
		return auth.Decision{Effect: auth.Allow}
	})
	h := middleware.Authorize(nil, policy)(func(_ context.Context, req *middleware.Request) (mcp.Result, error) {
		if req.Method == mcp.MethodToolsList {
			return &mcp.ListToolsResult{Tools: []*mcp.Tool{{Name: "search"}, {Name: "delete"}}}, nil
		}
		return &mcp.CallToolResult{}, nil
	})
	list, _ := h(context.Background(), &middleware.Request{Method: mcp.MethodToolsList})
	for _, tool := range list.(*mcp.ListToolsResult).Tools {
		fmt.Println(tool.Name)
	}
	_, err := h(context.Background(), &middleware.Request{Method: mcp.MethodToolsCall, Target: "delete"})
	fmt.Println(err)

	// Output:
	// search
	// denied by the rule admins
}
