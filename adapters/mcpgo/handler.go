package mcpgo

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/mark3labs/mcp-go/mcp"
	sdk "github.com/mark3labs/mcp-go/server"

	"github.com/vitrine-mcp/vitrine/internal/adapt"
	vitrine "github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// tool runs the middlewares around the handler of a tool.
func (a *Adapter) tool(next sdk.ToolHandlerFunc) sdk.ToolHandlerFunc {
	return func(ctx context.Context, req mcp.CallToolRequest) (answered *mcp.CallToolResult, failed error) {
		if r := requestOf(ctx); r != nil && r.task {
			var task *request
			ctx, task = r.beginTask(ctx)
			defer func() { task.endTask(answered, failed) }()
		}
		result, changed, err := serve(ctx, a, func(ctx context.Context) (*mcp.CallToolResult, error) { return next(ctx, req) })
		if err != nil || changed == nil {
			return result, err
		}
		fresh := new(mcp.CallToolResult)
		return fresh, json.Unmarshal(changed, fresh)
	}
}

// prompt runs the middlewares around the handler of a prompt.
func (a *Adapter) prompt(next sdk.PromptHandlerFunc) sdk.PromptHandlerFunc {
	return func(ctx context.Context, req mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		result, changed, err := serve(ctx, a, func(ctx context.Context) (*mcp.GetPromptResult, error) { return next(ctx, req) })
		if err != nil || changed == nil {
			return result, err
		}
		return mcp.ParseGetPromptResult(&changed)
	}
}

// resource runs the middlewares around the handler of a resource.
func (a *Adapter) resource(next sdk.ResourceHandlerFunc) sdk.ResourceHandlerFunc {
	return func(ctx context.Context, req mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
		result, changed, err := serve(ctx, a, func(ctx context.Context) (*mcp.ReadResourceResult, error) {
			contents, err := next(ctx, req)
			return &mcp.ReadResourceResult{Contents: contents}, err
		})
		if err == nil && changed != nil {
			result, err = mcp.ParseReadResourceResult(&changed)
		}
		if err != nil {
			return nil, err
		}
		return result.Contents, nil
	}
}

// serve serves a request. changed is the result of the middlewares in JSON, or nil if they did not
// change the result.
func serve[R any](ctx context.Context, a *Adapter, next func(context.Context) (R, error)) (result R, changed json.RawMessage, err error) {
	var none R
	r := requestOf(ctx)
	if r == nil || r.call.Request == nil { // there is no request
		result, err = next(ctx)
		return result, nil, err
	}
	var shown error
	var converted adapt.Converted
	ours, failure := r.call.Serve(ctx, func(ctx context.Context, _ *middleware.Request) (vitrine.Result, error) {
		if result, shown = next(ctx); shown != nil || !a.core.Chained(r.method) {
			return nil, shown
		}
		converted = adapt.Convert(r.method, result)
		return converted.Result, nil
	})
	r.failure = failure
	r.call.Failed(failure)
	switch {
	case failure != nil && shown != nil && errors.Is(failure, shown) && !adapt.Ours(failure):
		return none, nil, shown
	case failure != nil:
		changed, err = told(r.call, failure)
		return none, changed, err
	case !a.core.Chained(r.method):
		return result, nil, nil
	}
	_, asks := ours.(*vitrine.InputRequiredResult)
	after, err := converted.Changed(ours, asks) // mcp-go adds the other type, for modern clients only
	if asks && r.method == vitrine.MethodResourcesRead {
		err = errAsks
	}
	if err != nil {
		r.call.Operation().Error(err)
		changed, err = told(r.call, err)
		return none, changed, err
	}
	return result, json.RawMessage(after), nil
}

// errAsks is the error for a question of a middleware in place of a resource.
var errAsks = errors.New("a middleware asks the client, but mcp-go takes nothing but contents from handlers of resources")

// told returns the answer for an error, as our server makes it.
func told(call *adapt.Call, err error) (json.RawMessage, error) {
	tool, rpc := call.Told(err)
	if rpc != nil {
		return nil, answer{rpc}
	}
	data, err := json.Marshal(mcp.NewToolResultError(tool.Content[0].(*vitrine.TextContent).Text))
	return data, err
}

// An answer is an error whose text mcp-go sends.
type answer struct{ rpc *vitrine.Error }

// Error returns the message without the code.
func (e answer) Error() string { return e.rpc.Message }

// Unwrap returns the error.
func (e answer) Unwrap() error { return e.rpc }
