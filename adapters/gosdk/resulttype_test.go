package gosdk_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/adapttest"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// mark is a middleware that changes each result.
func mark(next middleware.Handler) middleware.Handler {
	return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
		result, err := next(ctx, req)
		if err == nil {
			adapttest.Mark(result)
		}
		return result, err
	}
}

// addAsking adds a tool, a prompt and a resource that ask the user before they answer.
func (w *world) addAsking() {
	question := sdk.InputRequestMap{"sure": &sdk.ElicitParams{Message: "Are you sure?"}}
	sdk.AddTool(w.server, &sdk.Tool{Name: "ask"}, func(_ context.Context, req *sdk.CallToolRequest, _ none) (*sdk.CallToolResult, any, error) {
		if req.Params.InputResponses == nil {
			return &sdk.CallToolResult{InputRequests: question, RequestState: "asked"}, nil, nil
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "done"}}}, nil, nil
	})
	w.server.AddPrompt(&sdk.Prompt{Name: "ask"}, func(_ context.Context, req *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		if req.Params.InputResponses == nil {
			return &sdk.GetPromptResult{InputRequests: question, RequestState: "asked"}, nil
		}
		return &sdk.GetPromptResult{Description: "done"}, nil
	})
	w.server.AddResource(&sdk.Resource{Name: "ask", URI: "note://ask"}, func(_ context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		if req.Params.InputResponses == nil {
			return &sdk.ReadResourceResult{
				Contents:      []*sdk.ResourceContents{}, // without them the SDK does not ask legacy clients
				InputRequests: question, RequestState: "asked",
			}, nil
		}
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: "note://ask", Text: "done"}}}, nil
	})
}

// asked are the requests for what addAsking adds.
func asked(session *sdk.ClientSession) map[string]func(context.Context, sdk.InputResponseMap) (sdk.Result, error) {
	return map[string]func(context.Context, sdk.InputResponseMap) (sdk.Result, error){
		"tools/call": func(ctx context.Context, answers sdk.InputResponseMap) (sdk.Result, error) {
			return session.CallTool(ctx, &sdk.CallToolParams{Name: "ask", Arguments: none{}, InputResponses: answers})
		},
		"prompts/get": func(ctx context.Context, answers sdk.InputResponseMap) (sdk.Result, error) {
			return session.GetPrompt(ctx, &sdk.GetPromptParams{Name: "ask", InputResponses: answers})
		},
		"resources/read": func(ctx context.Context, answers sdk.InputResponseMap) (sdk.Result, error) {
			return session.ReadResource(ctx, &sdk.ReadResourceParams{URI: "note://ask", InputResponses: answers})
		},
	}
}

// members returns the members of a result that a client has received.
func members(t *testing.T, result sdk.Result) (all map[string]any) {
	t.Helper()
	data, err := json.Marshal(result)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &all))
	return all
}

// A modern client is told the type of a result that a middleware has changed, and so it can answer a
// question. A legacy client is told no type, and is asked by the SDK.
func TestChangedResultKeepsItsType(t *testing.T) {
	each(t, func(t *testing.T, wire wire) {
		w := newWorld(t, mark)
		w.addAsking()
		session := wire.dial(w, sdk.NewClient(&sdk.Implementation{Name: "tester", Version: "2.0.0"}, &sdk.ClientOptions{
			MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true}, // the test makes the rounds
			ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
				return &sdk.ElicitResult{Action: "accept"}, nil
			},
		}))
		for method, ask := range asked(session) {
			result, err := ask(t.Context(), nil)
			require.NoError(t, err, method)
			got := members(t, result)
			if wire.version == modern {
				require.Equal(t, "input_required", got["resultType"], method)
				require.Contains(t, got["inputRequests"], "sure", method)
				require.Equal(t, "asked", got["requestState"], method)
				require.Equal(t, true, got["_meta"].(map[string]any)["marked"], method)

				result, err = ask(t.Context(), sdk.InputResponseMap{"sure": &sdk.ElicitResult{Action: "accept"}})
				require.NoError(t, err, method)
				got = members(t, result)
				require.Equal(t, "complete", got["resultType"], method)
			} else {
				require.NotContains(t, got, "resultType", method)
			}
			require.Contains(t, toJSON(t, got), "done", method)
			require.NotContains(t, got, "inputRequests", method)
			require.Equal(t, true, got["_meta"].(map[string]any)["marked"], method)
		}
	})
}

// A modern client is told the type also of a result that a middleware has made itself, or that
// the adapter has made of its error.
func TestResultOfMiddlewareHasType(t *testing.T) {
	each(t, func(t *testing.T, wire wire) {
		w := newWorld(t,
			middleware.For([]string{"add"}, func(middleware.Handler) middleware.Handler {
				return func(context.Context, *middleware.Request) (mcp.Result, error) {
					return mcp.ToolErrorResult("the tool is being repaired"), nil
				}
			}),
			middleware.For([]string{"wait"}, func(middleware.Handler) middleware.Handler {
				return func(context.Context, *middleware.Request) (mcp.Result, error) {
					return nil, mcp.ToolErrorf("try again tomorrow")
				}
			}))
		session := wire.connect(w)
		for _, tool := range []string{"add", "wait"} {
			result, err := call(t, session, tool, none{})
			require.NoError(t, err)
			require.True(t, result.IsError)
			got := members(t, result)
			if wire.version == modern {
				require.Equal(t, "complete", got["resultType"], tool)
			} else {
				require.NotContains(t, got, "resultType", tool)
			}
		}
	})
}

// The operator can look up the error of a middleware that has returned no result.
func TestMissingResultIsRecorded(t *testing.T) {
	each(t, func(t *testing.T, wire wire) {
		w := newWorld(t, middleware.For([]string{"greet"}, func(middleware.Handler) middleware.Handler {
			return func(context.Context, *middleware.Request) (mcp.Result, error) { return nil, nil }
		}))
		_, err := wire.connect(w).GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "greet"})
		require.ErrorContains(t, err, "internal error; its operator can look it up by the trace id")
		require.Contains(t, w.Span("prompts/get greet").Events, "exception")
	})
}

// A resource that a middleware has made is cached for its caller alone, unless the middleware says
// otherwise. The SDK has no value of its own for it.
func TestResourceOfMiddlewareIsPrivate(t *testing.T) {
	each(t, func(t *testing.T, wire wire) {
		var hint mcp.CacheHint
		w := newWorld(t, func(next middleware.Handler) middleware.Handler {
			return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
				if req.Method != mcp.MethodResourcesRead {
					return next(ctx, req)
				}
				return &mcp.ReadResourceResult{Contents: []mcp.ResourceContents{{URI: "note://1", Text: "a copy"}}, CacheHint: hint}, nil
			}
		})
		session := wire.connect(w)
		got, err := session.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "note://1"})
		require.NoError(t, err)
		require.Equal(t, sdk.Cacheable{CacheScope: "private"}, got.Cacheable)
		hint = mcp.CacheFor(time.Second, mcp.CachePublic)
		got, err = session.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "note://1"})
		require.NoError(t, err)
		require.Equal(t, sdk.Cacheable{TTLMs: 1000, CacheScope: "public"}, got.Cacheable)
	})
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return string(data)
}
