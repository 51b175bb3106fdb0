package gosdk_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	identity "github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/adapttest"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// A panic of a handler, which would end the process, is answered with an error without details,
// and recorded.
func TestPanicIsContained(t *testing.T) {
	each(t, func(t *testing.T, wire wire) {
		w := newWorld(t)
		session := wire.connect(w)
		_, err := call(t, session, "panic", none{})
		var answered *jsonrpc.Error
		require.ErrorAs(t, err, &answered)
		require.EqualValues(t, mcp.CodeInternalError, answered.Code)
		require.Equal(t, "internal error", answered.Message)
		require.Equal(t, 1.0, w.Metric("vitrine_handler_panics_total", adapttest.Labels{"tool": "panic"}))
		require.Contains(t, w.Ended("tools/call").Panic, "the handler's fault")
		require.Contains(t, w.Span("tools/call panic").Events, "exception")

		_, err = call(t, session, "add", sum{1, 2})
		require.NoError(t, err, "the server goes on")
	})
}

// Panics of other handlers, also of those of notifications, are contained too.
func TestOtherPanicIsContained(t *testing.T) {
	each(t, func(t *testing.T, wire wire) {
		w := newWorld(t)
		session := wire.connect(w)
		_, err := session.Complete(t.Context(), &sdk.CompleteParams{
			Ref: &sdk.CompleteReference{Type: "ref/prompt", Name: "greet"}, Argument: sdk.CompleteParamsArgument{Name: "a"},
		})
		require.ErrorContains(t, err, "internal error")
		require.Equal(t, 1.0, w.Metric("vitrine_handler_panics_total", adapttest.Labels{"method": "completion/complete"}))

		if wire.name != "modern over HTTP" { // where the SDK drops notifications
			require.NoError(t, session.NotifyProgress(t.Context(), &sdk.ProgressNotificationParams{ProgressToken: "x"}))
			w.Span("notifications/progress")
		}
		_, err = call(t, session, "add", sum{1, 2})
		require.NoError(t, err, "the server goes on")
	})
}

// The panic of a middleware is contained, too.
func TestMiddlewarePanicIsContained(t *testing.T) {
	w := newWorld(t, middleware.For([]string{"add"}, func(middleware.Handler) middleware.Handler {
		return func(context.Context, *middleware.Request) (mcp.Result, error) { panic("the middleware's fault") }
	}))
	_, err := call(t, wires()[1].connect(w), "add", sum{1, 2})
	require.ErrorContains(t, err, "internal error")
	require.Equal(t, 1.0, w.Metric("vitrine_handler_panics_total", adapttest.Labels{"tool": "add"}))
}

// Logging records the same as on our server, also the handler's own error.
func TestLogging(t *testing.T) {
	each(t, func(t *testing.T, wire wire) {
		var log bytes.Buffer
		w := newWorld(t, middleware.Logging(slog.New(slog.NewTextHandler(&log, nil))))
		session := wire.connect(w)
		result, err := call(t, session, "fail", none{})
		require.NoError(t, err)
		require.True(t, result.IsError)
		require.Contains(t, log.String(), `level=WARN msg=request.handled method=tools/call target=fail`)
		require.Contains(t, log.String(), `no such table`)
	})
}

// A middleware gets the same request as on our server.
func TestRequestOfMiddleware(t *testing.T) {
	each(t, func(t *testing.T, wire wire) {
		var got *middleware.Request
		w := newWorld(t, middleware.For([]string{"add"}, func(next middleware.Handler) middleware.Handler {
			return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
				got = req
				return next(ctx, req)
			}
		}))
		_, err := call(t, wire.connect(w), "add", sum{1, 2})
		require.NoError(t, err)
		require.Equal(t, middleware.Route{Method: "tools/call", Target: "add", Key: "tools/call add"}, got.Route)
		require.Equal(t, "add", got.Target)
		require.False(t, got.ID.IsZero())
		require.Contains(t, string(got.Params), `{"A":1,"B":2}`)
		require.Equal(t, wire.transport, got.Peer.Transport)
		require.EqualValues(t, wire.version, got.Peer.Version)
		require.Equal(t, wire.version == modern, got.Peer.Era == mcp.Modern)
		require.Equal(t, "tester", got.Client().Name)
		require.NotNil(t, got.Capabilities().Roots)
		require.False(t, got.ArrivedAt.IsZero())
		require.IsType(t, &sdk.CallToolRequest{}, got.Origin)
		if wire.transport == "http" {
			require.Equal(t, "application/json", got.Header.Get("Content-Type"))
			require.NotContains(t, got.Header, "Vitrine-Exchange", "it is ours")
			require.NotContains(t, got.Origin.(*sdk.CallToolRequest).Extra.Header, "Vitrine-Exchange")
			require.NotEmpty(t, got.Peer.Addr)
		}
	})
}

// A middleware can answer a request, and change an answer.
func TestMiddlewareAnswers(t *testing.T) {
	each(t, func(t *testing.T, wire wire) {
		w := newWorld(t,
			middleware.For([]string{"panic"}, func(middleware.Handler) middleware.Handler {
				return func(context.Context, *middleware.Request) (mcp.Result, error) {
					return mcp.ToolErrorResult("the tool is being repaired"), nil
				}
			}),
			middleware.For([]string{"add"}, func(next middleware.Handler) middleware.Handler {
				return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
					result, err := next(ctx, req)
					result.(*mcp.CallToolResult).StructuredContent = map[string]any{"Sum": 42}
					return result, err
				}
			}))
		session := wire.connect(w)
		result, err := call(t, session, "panic", none{})
		require.NoError(t, err)
		require.True(t, result.IsError)
		require.Equal(t, "the tool is being repaired", result.Content[0].(*sdk.TextContent).Text)
		require.Equal(t, "tool_error", w.Ended("tools/call").ErrorType)

		result, err = call(t, session, "add", sum{1, 2})
		require.NoError(t, err)
		require.Equal(t, map[string]any{"Sum": 42.0}, result.StructuredContent)
	})
}

// A middleware can refuse a request. The refusal is not an error of the service.
func TestMiddlewareRefuses(t *testing.T) {
	each(t, func(t *testing.T, wire wire) {
		w := newWorld(t, middleware.For([]string{"add"}, func(middleware.Handler) middleware.Handler {
			return func(context.Context, *middleware.Request) (mcp.Result, error) {
				return middleware.Refuse(mcp.Refusal{Status: 429, Reason: "quota", By: "test", RetryAfter: time.Minute})
			}
		}))
		_, err := call(t, wire.connect(w), "add", sum{1, 2})
		var answered *jsonrpc.Error
		require.ErrorAs(t, err, &answered)
		require.EqualValues(t, 429, answered.Code)
		require.JSONEq(t, `{"reason":"quota","retryAfter":60}`, string(answered.Data))
		require.Empty(t, w.Ended("tools/call").ErrorType)
		require.Equal(t, 1.0, w.Metric("vitrine_refusals_total", adapttest.Labels{"reason": "quota", "by": "test"}))
	})
}

// A rate limit refuses the calls of a caller that come too often.
func TestRateLimit(t *testing.T) {
	each(t, func(t *testing.T, wire wire) {
		limits, err := middleware.RateLimits(middleware.RateLimit{
			Name: "calls", Requests: 1, Window: time.Hour, Tools: []string{"add"}, Per: []string{middleware.PerPrincipal},
		})
		require.NoError(t, err)
		w := newWorld(t, limits)
		session := wire.connect(w)
		_, err = call(t, session, "add", sum{1, 2})
		require.NoError(t, err)
		_, err = call(t, session, "add", sum{1, 2})
		var answered *jsonrpc.Error
		require.ErrorAs(t, err, &answered)
		require.EqualValues(t, 429, answered.Code)
		require.JSONEq(t, `{"reason":"rate_limited","limit":"calls","retryAfter":3600}`, string(answered.Data))
		require.Equal(t, 1.0, w.Metric("vitrine_refusals_total", adapttest.Labels{"reason": "rate_limited", "by": "calls"}))
	})
}

// What a policy denies is in no list, and answered as if it did not exist.
func TestPolicyHidesItems(t *testing.T) {
	each(t, func(t *testing.T, wire wire) {
		w := newWorld(t, middleware.Authorize(nil, identity.PolicyFunc(func(_ context.Context, _ *identity.Principal, op *identity.Operation) identity.Decision {
			if op.Name == "add" || op.Name == "greet" || op.URI == "note://1" {
				return identity.Decision{Effect: identity.Deny, Rule: "hidden"}
			}
			return identity.Decision{Effect: identity.Allow}
		})))
		session := wire.connect(w)
		tools, err := session.ListTools(t.Context(), nil)
		require.NoError(t, err)
		require.Len(t, tools.Tools, 4)
		for _, tool := range tools.Tools {
			require.NotEqual(t, "add", tool.Name)
		}
		prompts, err := session.ListPrompts(t.Context(), nil)
		require.NoError(t, err)
		require.Empty(t, prompts.Prompts)
		resources, err := session.ListResources(t.Context(), nil)
		require.NoError(t, err)
		require.Len(t, resources.Resources, 1)
		_, err = call(t, session, "add", sum{1, 2})
		require.ErrorContains(t, err, `there is no tool "add"`)
		_, err = session.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "greet"})
		require.ErrorContains(t, err, `there is no prompt "greet"`)
		_, err = session.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "note://1"})
		require.ErrorContains(t, err, `there is no resource "note://1"`)
	})
}

// The caller gets only the trace ID of a middleware's error, unless the error was made for
// callers. The operator gets all of it. A handler can return such errors too.
func TestErrorsAreTold(t *testing.T) {
	each(t, func(t *testing.T, wire wire) {
		var failure error
		fails := func(middleware.Handler) middleware.Handler {
			return func(context.Context, *middleware.Request) (mcp.Result, error) { return nil, failure }
		}
		w := newWorld(t, middleware.For([]string{"add", "greet"}, fails))
		session := wire.connect(w)
		said := func(tool string) string {
			t.Helper()
			result, err := call(t, session, tool, none{})
			require.NoError(t, err)
			require.True(t, result.IsError)
			return result.Content[0].(*sdk.TextContent).Text
		}
		failure = errors.New("the password of the database")
		require.Regexp(t, "^the tool failed; its operator can look it up by the trace id [0-9a-f]{32}$", said("add"))
		require.Contains(t, w.Span("tools/call add").Events, "exception")
		_, err := session.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "greet"})
		require.ErrorContains(t, err, "internal error; its operator can")

		failure = &mcp.ToolError{Text: "try again tomorrow", Err: failure}
		require.Equal(t, "try again tomorrow", said("add"))

		w.failure = failure
		require.Equal(t, "try again tomorrow", said("fail"))
		require.Equal(t, 1.0, w.Metric("mcp_server_operation_duration_seconds", adapttest.Labels{
			"gen_ai_tool_name": "fail", "error_type": "tool_error",
		}))
		w.failure = mcp.CallerFault(errors.New("no such row"))
		require.Equal(t, "no such row", said("fail"), "the SDK's way")
		require.Equal(t, 1.0, w.Metric("mcp_server_operation_duration_seconds", adapttest.Labels{
			"gen_ai_tool_name": "fail", "error_type": "",
		}), "the caller's fault")
	})
}

// For each method, results that no middleware changes are those of the SDK.
func TestMiddlewareLeavesResultsAlone(t *testing.T) {
	each(t, func(t *testing.T, wire wire) {
		seen := map[string]mcp.Result{}
		w := newWorld(t, func(next middleware.Handler) middleware.Handler {
			return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
				result, err := next(ctx, req)
				seen[req.Method] = result
				return result, err
			}
		})
		session := wire.connect(w)
		tools, err := session.ListTools(t.Context(), nil)
		require.NoError(t, err)
		require.Len(t, tools.Tools, 5)
		require.Len(t, seen["tools/list"].(*mcp.ListToolsResult).Tools, 5)
		prompt, err := session.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "greet"})
		require.NoError(t, err)
		require.Equal(t, "a greeting", prompt.Description)
		require.IsType(t, &mcp.GetPromptResult{}, seen["prompts/get"])
		_, err = session.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "note://1"})
		require.ErrorContains(t, err, "the disk is on fire", "the SDK answers with its handlers' errors")
		var answered *jsonrpc.Error
		require.ErrorAs(t, err, &answered)
		require.Zero(t, answered.Code, "as the SDK has it")
	})
}

// The caller that the SDK has authenticated is the principal.
func TestPrincipal(t *testing.T) {
	got := make(chan string, 1)
	w := newWorld(t, middleware.For([]string{"add"}, func(next middleware.Handler) middleware.Handler {
		return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
			got <- req.Principal.String()
			return next(ctx, req)
		}
	}))
	verify := func(context.Context, string, *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: "alice", Expiration: farAway}, nil
	}
	url := w.serveHTTP(modern, auth.RequireBearerToken(verify, nil))
	session := w.dial(newClient(), &sdk.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearer{}}}, modern)
	_, err := call(t, session, "add", sum{1, 2})
	require.NoError(t, err)
	require.Equal(t, "alice", <-got)
}

type bearer struct{}

// RoundTrip implements [http.RoundTripper].
func (bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer token")
	return http.DefaultTransport.RoundTrip(req)
}

// Of two members with one name the SDK takes the last one. Policies are asked about the tool that it
// calls.
func TestPolicyDecidesAboutWhatIsCalled(t *testing.T) {
	w := newWorld(t, middleware.Authorize(nil, identity.PolicyFunc(func(_ context.Context, _ *identity.Principal, op *identity.Operation) identity.Decision {
		if op.Name == "panic" {
			return identity.Decision{Effect: identity.Deny}
		}
		return identity.Decision{Effect: identity.Allow}
	})))
	here, there := sdk.NewInMemoryTransports()
	session, err := w.server.Connect(t.Context(), w.adapter.Transport(here), nil)
	require.NoError(t, err)
	client, err := there.Connect(t.Context())
	require.NoError(t, err)
	defer func() {
		require.NoError(t, client.Close())
		_ = session.Wait()
	}()
	ask := func(id float64, method, params string) string {
		t.Helper()
		asked, err := jsonrpc.MakeID(id)
		require.NoError(t, err)
		require.NoError(t, client.Write(t.Context(), &jsonrpc.Request{ID: asked, Method: method, Params: json.RawMessage(params)}))
		answer, err := client.Read(t.Context())
		require.NoError(t, err)
		data, err := jsonrpc.EncodeMessage(answer)
		require.NoError(t, err)
		return string(data)
	}
	ask(1, "initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"tester","version":"1"}}`)
	require.NoError(t, client.Write(t.Context(), &jsonrpc.Request{Method: "notifications/initialized"}))
	for i, params := range []string{
		`{"name":"panic"}`, `{"name":"add","name":"panic"}`, `{"name":"add","Name":"x","name":"panic"}`,
		`{"name":"panic","arguments":{"z":1,"z":2}}`, `{"name":"panic","arguments":{"z":"\ud800"}}`,
	} {
		require.Contains(t, ask(float64(i+2), "tools/call", params), `there is no tool \"panic\"`, params)
	}
}
