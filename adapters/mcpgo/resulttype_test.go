package mcpgo_test

import (
	"context"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/adapttest"
	vitrine "github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// mark returns a middleware that changes each result, and records the results.
func mark(seen *[]vitrine.Result) middleware.Middleware {
	return func(next middleware.Handler) middleware.Handler {
		return func(ctx context.Context, req *middleware.Request) (vitrine.Result, error) {
			result, err := next(ctx, req)
			if err == nil {
				adapttest.Mark(result)
				*seen = append(*seen, result)
			}
			return result, err
		}
	}
}

// addAsking adds a tool and a prompt that ask the user before they answer.
func (w *world) addAsking() {
	question := server.NewInputRequestBuilder("asked").Elicit("sure", mcp.ElicitationParams{
		Message: "Are you sure?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}},
	})
	w.server.AddTool(mcp.NewTool("ask"), func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if req.Params.InputResponses == nil {
			return question.ToolResult(), nil
		}
		return mcp.NewToolResultText("done"), nil
	})
	w.server.AddPrompt(mcp.NewPrompt("ask"), func(_ context.Context, req mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		if req.Params.InputResponses == nil {
			return question.PromptResult(), nil
		}
		return mcp.NewGetPromptResult("done", nil), nil
	})
}

// A question stays one when a middleware changes it: mcp-go asks the user of a legacy client, and a
// modern client asks its user. Only modern clients are told the type of the result.
func TestChangedResultKeepsItsType(t *testing.T) {
	each(t, func(t *testing.T, wire wire) {
		var seen []vitrine.Result
		w := newWorldWith(t, []server.ServerOption{server.WithElicitation()}, mark(&seen))
		w.addAsking()
		c := wire.connect(w)
		want := mcp.ResultType("")
		if wire.version == modern {
			want = mcp.ResultTypeComplete
		}
		tool, err := call(t, c, "ask", nil)
		require.NoError(t, err)
		require.Len(t, tool.Content, 1)
		require.Equal(t, "done", tool.Content[0].(mcp.TextContent).Text)
		require.Equal(t, want, tool.ResultType)
		require.Equal(t, true, tool.Meta.AdditionalFields["marked"])
		prompt, err := c.GetPrompt(t.Context(), mcp.GetPromptRequest{Params: mcp.GetPromptParams{Name: "ask"}})
		require.NoError(t, err)
		require.Equal(t, "done", prompt.Description)
		require.Equal(t, want, prompt.ResultType)
		resource, err := read(t, c, "note://1")
		require.NoError(t, err)
		require.Equal(t, want, resource.ResultType)

		require.Len(t, seen, 5)
		require.IsType(t, &vitrine.InputRequiredResult{}, seen[0])
		require.IsType(t, &vitrine.CallToolResult{}, seen[1])
		require.IsType(t, &vitrine.InputRequiredResult{}, seen[2])
	})
}

// Handlers of resources can only return contents. A middleware that asks a question in place of
// them gets an error, and the client no resource without contents.
func TestMiddlewareCannotAskForResource(t *testing.T) {
	each(t, func(t *testing.T, wire wire) {
		w := newWorld(t, func(middleware.Handler) middleware.Handler {
			return func(context.Context, *middleware.Request) (vitrine.Result, error) {
				return &vitrine.InputRequiredResult{RequestState: "asked"}, nil
			}
		})
		_, err := read(t, wire.connect(w), "note://1")
		require.ErrorContains(t, err, "internal error; its operator can look it up by the trace id")
		require.Contains(t, w.Span("resources/read").Events, "exception")
	})
}
