package mcpgo_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/adapttest"
	vitrine "github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// A panic of a handler is answered with an error without details, and recorded.
func TestPanicIsContained(t *testing.T) {
	each(t, func(t *testing.T, wire wire) {
		w := newWorld(t)
		c := wire.connect(w)
		_, err := call(t, c, "panic", nil)
		require.ErrorContains(t, err, "internal error")
		require.NotContains(t, err.Error(), "fault")
		require.Equal(t, 1.0, w.Metric("vitrine_handler_panics_total", adapttest.Labels{"tool": "panic"}))
		require.Contains(t, w.Ended("tools/call").Panic, "the handler's fault")
		require.Contains(t, w.Span("tools/call panic").Events, "exception")

		_, err = call(t, c, "add", numbers{1, 2})
		require.NoError(t, err, "the server goes on")
	})
}

// A panic outside of all middlewares is recorded, and mcp-go contains it over stdio.
func TestOtherPanicIsRecorded(t *testing.T) {
	w := newWorld(t)
	c := wires()[2].connect(w)
	_, err := c.Complete(t.Context(), mcp.CompleteRequest{Params: mcp.CompleteParams{
		Ref: mcp.PromptReference{Type: "ref/prompt", Name: "greet"}, Argument: mcp.CompleteArgument{Name: "a"},
	}})
	require.Error(t, err)
	require.Equal(t, 1.0, w.Metric("vitrine_handler_panics_total", adapttest.Labels{"method": "completion/complete"}))
}

// The panic of a middleware is contained, too.
func TestMiddlewarePanicIsContained(t *testing.T) {
	w := newWorld(t, middleware.For([]string{"add"}, func(middleware.Handler) middleware.Handler {
		return func(context.Context, *middleware.Request) (vitrine.Result, error) { panic("the middleware's fault") }
	}))
	_, err := call(t, wires()[1].connect(w), "add", numbers{1, 2})
	require.ErrorContains(t, err, "internal error")
	require.Equal(t, 1.0, w.Metric("vitrine_handler_panics_total", adapttest.Labels{"tool": "add"}))
}

// Logging records the same as on our server.
func TestLogging(t *testing.T) {
	each(t, func(t *testing.T, wire wire) {
		var log bytes.Buffer
		w := newWorld(t, middleware.Logging(slog.New(slog.NewTextHandler(&log, nil))))
		_, err := call(t, wire.connect(w), "fail", nil)
		require.Error(t, err)
		require.Contains(t, log.String(), `level=WARN msg=request.handled method=tools/call target=fail`)
		require.Contains(t, log.String(), `no such table`)
	})
}

// A middleware gets the same request as on our server.
func TestRequestOfMiddleware(t *testing.T) {
	each(t, func(t *testing.T, wire wire) {
		var got *middleware.Request
		w := newWorld(t, func(next middleware.Handler) middleware.Handler {
			return func(ctx context.Context, req *middleware.Request) (vitrine.Result, error) {
				got = req
				return next(ctx, req)
			}
		})
		c := wire.connect(w)
		_, err := call(t, c, "add", numbers{1, 2})
		require.NoError(t, err)
		require.Equal(t, middleware.Route{Method: "tools/call", Target: "add", Key: "tools/call add"}, got.Route)
		require.Equal(t, "add", got.Target)
		require.False(t, got.ID.IsZero())
		require.Contains(t, string(got.Params), `{"a":1,"b":2}`)
		require.Equal(t, wire.transport, got.Peer.Transport)
		require.EqualValues(t, wire.version, got.Peer.Version)
		require.Equal(t, wire.version == modern, got.Peer.Era == vitrine.Modern)
		require.Equal(t, "tester", got.Client().Name)
		require.False(t, got.ArrivedAt.IsZero())
		require.IsType(t, &mcp.CallToolRequest{}, got.Origin)
		if wire.transport == "http" {
			require.Equal(t, "application/json", got.Header.Get("Content-Type"))
			require.NotEmpty(t, got.Peer.Addr)
		}
		_, err = read(t, c, "note://1")
		require.NoError(t, err)
		require.Equal(t, middleware.Route{Method: "resources/read", Key: "resources/read note://1"}, got.Route)
	})
}

// Only requests for tools, prompts and resources reach the middlewares.
func TestWhatReachesMiddlewares(t *testing.T) {
	each(t, func(t *testing.T, wire wire) {
		seen := map[string]vitrine.Result{}
		w := newWorld(t, func(next middleware.Handler) middleware.Handler {
			return func(ctx context.Context, req *middleware.Request) (vitrine.Result, error) {
				result, err := next(ctx, req)
				seen[req.Method] = result
				return result, err
			}
		})
		c := wire.connect(w)
		tools, err := c.ListTools(t.Context(), mcp.ListToolsRequest{})
		require.NoError(t, err)
		require.NotEmpty(t, tools.Tools)
		result, err := call(t, c, "add", numbers{1, 2})
		require.NoError(t, err)
		require.Equal(t, map[string]any{"sum": 3.0}, result.StructuredContent)
		prompt, err := c.GetPrompt(t.Context(), mcp.GetPromptRequest{Params: mcp.GetPromptParams{Name: "greet"}})
		require.NoError(t, err)
		require.Equal(t, "a greeting", prompt.Description)
		resource, err := read(t, c, "note://1")
		require.NoError(t, err)
		require.Equal(t, "a note", resource.Contents[0].(mcp.TextResourceContents).Text)
		require.Len(t, seen, 3)
		require.IsType(t, &vitrine.CallToolResult{}, seen["tools/call"])
		require.IsType(t, &vitrine.GetPromptResult{}, seen["prompts/get"])
		require.IsType(t, &vitrine.ReadResourceResult{}, seen["resources/read"])
	})
}

// A middleware can answer a request, and change an answer.
func TestMiddlewareAnswers(t *testing.T) {
	each(t, func(t *testing.T, wire wire) {
		w := newWorld(t, func(next middleware.Handler) middleware.Handler {
			return func(ctx context.Context, req *middleware.Request) (vitrine.Result, error) {
				if req.Target == "panic" {
					return vitrine.ToolErrorResult("the tool is being repaired"), nil
				}
				result, err := next(ctx, req)
				switch result := result.(type) {
				case *vitrine.CallToolResult:
					result.StructuredContent = map[string]any{"sum": 42}
				case *vitrine.GetPromptResult:
					result.Description = "changed"
				case *vitrine.ReadResourceResult:
					result.Contents[0].Text = "changed"
				}
				return result, err
			}
		})
		c := wire.connect(w)
		result, err := call(t, c, "panic", nil)
		require.NoError(t, err)
		require.True(t, result.IsError)
		require.Equal(t, "the tool is being repaired", result.Content[0].(mcp.TextContent).Text)
		require.Equal(t, "tool_error", w.Ended("tools/call").ErrorType)

		result, err = call(t, c, "add", numbers{1, 2})
		require.NoError(t, err)
		require.Equal(t, map[string]any{"sum": 42.0}, result.StructuredContent)
		prompt, err := c.GetPrompt(t.Context(), mcp.GetPromptRequest{Params: mcp.GetPromptParams{Name: "greet"}})
		require.NoError(t, err)
		require.Equal(t, "changed", prompt.Description)
		resource, err := read(t, c, "note://1")
		require.NoError(t, err)
		require.Equal(t, "changed", resource.Contents[0].(mcp.TextResourceContents).Text)
	})
}

// A middleware can refuse a request. The refusal is not an error of the service, although mcp-go
// has only one code for it.
func TestMiddlewareRefuses(t *testing.T) {
	each(t, func(t *testing.T, wire wire) {
		w := newWorld(t, middleware.For([]string{"add"}, func(middleware.Handler) middleware.Handler {
			return func(context.Context, *middleware.Request) (vitrine.Result, error) {
				return middleware.Refuse(vitrine.Refusal{Status: 429, Reason: "quota", By: "test", RetryAfter: time.Minute})
			}
		}))
		_, err := call(t, wire.connect(w), "add", numbers{1, 2})
		require.ErrorContains(t, err, "there are too many requests")
		require.Empty(t, w.Ended("tools/call").ErrorType)
		require.Equal(t, 1.0, w.Metric("vitrine_refusals_total", adapttest.Labels{"reason": "quota", "by": "test"}))
	})
}

// A rate limit refuses the calls of a caller that come too often.
func TestRateLimit(t *testing.T) {
	each(t, func(t *testing.T, wire wire) {
		limits, err := middleware.RateLimits(middleware.RateLimit{
			Name: "calls", Requests: 1, Window: time.Hour, Tools: []string{"add"}, Per: []string{middleware.PerAddress},
		})
		require.NoError(t, err)
		w := newWorld(t, limits)
		session := wire.connect(w)
		_, err = call(t, session, "add", numbers{1, 2})
		require.NoError(t, err)
		_, err = call(t, session, "add", numbers{1, 2})
		require.ErrorContains(t, err, "there are too many requests: the limit calls is 1 in 1h0m0s")
		require.Equal(t, 1.0, w.Metric("vitrine_refusals_total", adapttest.Labels{"reason": "rate_limited", "by": "calls"}))
	})
}

// What a policy denies cannot be used. It is listed, because mcp-go has no middlewares for lists.
func TestPolicyDeniesItems(t *testing.T) {
	each(t, func(t *testing.T, wire wire) {
		w := newWorld(t, middleware.Authorize(nil, auth.PolicyFunc(func(_ context.Context, _ *auth.Principal, op *auth.Operation) auth.Decision {
			if op.Name == "add" {
				return auth.Decision{Effect: auth.Deny, Rule: "hidden"}
			}
			return auth.Decision{Effect: auth.Allow}
		})))
		_, err := call(t, wire.connect(w), "add", numbers{1, 2})
		require.ErrorContains(t, err, `there is no tool "add"`)
	})
}

// The caller gets only the trace ID of a middleware's error, unless the error was made for
// callers. The operator gets all of it. A handler can return such errors too.
func TestErrorsAreTold(t *testing.T) {
	each(t, func(t *testing.T, wire wire) {
		var failure error
		w := newWorld(t, middleware.For([]string{"add", "greet"}, func(middleware.Handler) middleware.Handler {
			return func(context.Context, *middleware.Request) (vitrine.Result, error) { return nil, failure }
		}))
		c := wire.connect(w)
		said := func(tool string) string {
			t.Helper()
			result, err := call(t, c, tool, nil)
			require.NoError(t, err)
			require.True(t, result.IsError)
			return result.Content[0].(mcp.TextContent).Text
		}
		failure = errors.New("the password of the database")
		require.Regexp(t, "^the tool failed; its operator can look it up by the trace id [0-9a-f]{32}$", said("add"))
		require.Contains(t, w.Span("tools/call add").Events, "exception")
		_, err := c.GetPrompt(t.Context(), mcp.GetPromptRequest{Params: mcp.GetPromptParams{Name: "greet"}})
		require.ErrorContains(t, err, "internal error; its operator can")

		failure = &vitrine.ToolError{Text: "try again tomorrow", Err: failure}
		require.Equal(t, "try again tomorrow", said("add"))
		w.failure = failure
		require.Equal(t, "try again tomorrow", said("fail"))
	})
}

// mcp-go takes the member "Name" for "name", and the last one counts. Policies are asked about the tool
// that mcp-go calls.
func TestPolicyDecidesAboutWhatIsCalled(t *testing.T) {
	w := newWorld(t, middleware.Authorize(nil, auth.PolicyFunc(func(_ context.Context, _ *auth.Principal, op *auth.Operation) auth.Decision {
		if op.Name == "broken" {
			return auth.Decision{Effect: auth.Deny}
		}
		return auth.Decision{Effect: auth.Allow}
	})))
	url := w.serveHTTP()
	for _, message := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"broken"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","Name":"broken"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","name":"broken"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add"},"Params":{"name":"broken"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"broken","arguments":{"z":1,"z":2}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"broken","arguments":{"z":"\ud800"}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"broken","arguments":{"z":"` + "\xff" + `"}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call","params":{"name":"broken"}}`,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(message))
		require.NoError(t, err)
		req.Header = http.Header{
			"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
			"Mcp-Session-Id": {"mcp-session-00000000-0000-4000-8000-000000000000"},
		}
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		answer, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Contains(t, string(answer), `there is no tool \"broken\"`, message)
	}
}
