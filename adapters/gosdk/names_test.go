package gosdk_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/adapters/gosdk"
	"github.com/vitrine-mcp/vitrine/internal/adapttest"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// newToolWorld instruments a server with the tools tool-001, tool-002 and so on, which lists one tool on a page.
// inner is a middleware of the SDK that runs inside the adapter.
func newToolWorld(t *testing.T, tools int, inner sdk.Middleware, middlewares ...middleware.Middleware) *world {
	w := &world{Rig: adapttest.New(t), t: t}
	w.server = sdk.NewServer(&sdk.Implementation{Name: "world", Version: "1.0.0"}, &sdk.ServerOptions{
		PageSize: 1,
		SetCacheable: func(_ context.Context, req sdk.Request, _ *sdk.Cacheable) {
			assert.NotNil(t, req.GetExtra())
			w.pages.Add(1)
			if w.onPage != nil {
				w.onPage()
			}
		},
	})
	for i := range tools {
		w.addTool(fmt.Sprintf("tool-%03d", i+1))
	}
	w.server.AddReceivingMiddleware(inner)
	w.adapter = gosdk.Instrument(w.server, w.Telemetry, middlewares...)
	return w
}

func (w *world) addTool(name string) {
	sdk.AddTool(w.server, &sdk.Tool{Name: name}, func(context.Context, *sdk.CallToolRequest, none) (*sdk.CallToolResult, any, error) {
		return nil, nil, nil
	})
}

// passes is a middleware of the SDK that does nothing.
func passes(next sdk.MethodHandler) sdk.MethodHandler { return next }

// hidesLists is a middleware of the SDK that shows lists to nobody.
func hidesLists(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if method == "tools/list" {
			return nil, errors.New("nobody may see the tools")
		}
		return next(ctx, method, req)
	}
}

// lends is a middleware of the SDK that serves the tool borrowed, which is not registered, and does not list it.
func lends(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		if call, ok := req.GetParams().(*sdk.CallToolParamsRaw); ok && call.Name == "borrowed" {
			return &sdk.CallToolResult{Content: []sdk.Content{}}, nil
		}
		return next(ctx, method, req)
	}
}

// Middlewares for some tools run for each call of them, whatever lists say.
func TestMiddlewaresForToolsAlwaysRun(t *testing.T) {
	for _, c := range []struct {
		name  string
		tools int
		inner sdk.Middleware
		call  string
		label string
	}{
		{"a tool that no list shows", 1, hidesLists, "tool-001", "tool-001"},
		{"a tool on page 120", 120, passes, "tool-120", "tool-120"},
		{"a tool that a middleware of the SDK serves", 1, lends, "borrowed", ""},
	} {
		limits := func() middleware.Middleware {
			limit, err := middleware.RateLimits(middleware.RateLimit{Name: "calls", Requests: 1, Window: time.Hour, Tools: []string{c.call}})
			require.NoError(t, err)
			return limit
		}
		refuses := func(middleware.Handler) middleware.Handler {
			return func(context.Context, *middleware.Request) (mcp.Result, error) {
				return middleware.Refuse(mcp.Refusal{Status: 429, Reason: "quota", By: "test"})
			}
		}
		for name, limit := range map[string]middleware.Middleware{"For": middleware.For([]string{c.call}, refuses), "RateLimits": limits()} {
			t.Run(name+", "+c.name, func(t *testing.T) {
				w := newToolWorld(t, c.tools, c.inner, limit)
				session := wires()[1].connect(w)
				_, _ = call(t, session, c.call, none{}) // takes the token of the limit
				_, err := call(t, session, c.call, none{})
				var answered *jsonrpc.Error
				require.ErrorAs(t, err, &answered)
				require.EqualValues(t, 429, answered.Code)
				require.Equal(t, c.label, w.Ended("tools/call").Tool)
			})
		}
	}
}

// The adapter finds the names of tools without a list that the middlewares of the SDK see.
func TestNamesAreFoundWithoutLists(t *testing.T) {
	lists := 0
	w := newToolWorld(t, 3, func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if method == "tools/list" {
				lists++
			}
			return next(ctx, method, req)
		}
	})
	session := w.dialMemory(newClient(), legacy)
	for _, tool := range []string{"tool-002", "made up", "made up again"} {
		_, _ = call(t, session, tool, none{})
	}
	require.Zero(t, lists)
}

// A tool that is registered while the server runs is known at its first call.
func TestNewToolIsALabel(t *testing.T) {
	w := newToolWorld(t, 0, passes)
	session := w.dialMemory(newClient(), legacy)
	_, err := call(t, session, "late", none{})
	require.Error(t, err)
	w.addTool("late")
	_, err = call(t, session, "late", none{})
	require.NoError(t, err)
	require.Equal(t, 1.0, w.Metric("mcp_server_operation_duration_seconds", adapttest.Labels{"gen_ai_tool_name": "late"}))
}

// Unknown names cost one page of the list each, in the long run.
func TestUnknownNamesCostOnePage(t *testing.T) {
	w := newToolWorld(t, 20, passes)
	session := w.dialMemory(newClient(), legacy)
	for range 100 {
		_, err := call(t, session, "made up", none{})
		require.Error(t, err)
	}
	require.EqualValues(t, 100, w.pages.Load())
}

// Unknown names of concurrent calls cost no more.
func TestConcurrentUnknownNamesCostOnePage(t *testing.T) {
	w := newToolWorld(t, 100, passes)
	session := w.dialMemory(newClient(), legacy)
	var calls sync.WaitGroup
	for range 50 {
		calls.Go(func() {
			for range 20 {
				_, err := call(t, session, "made up", none{})
				assert.Error(t, err)
			}
		})
	}
	calls.Wait()
	require.EqualValues(t, 1000, w.pages.Load())
}

// Unknown names cost no more if the list cannot be read to its end.
func TestUnknownNamesCostOnePageOfBrokenList(t *testing.T) {
	w := newToolWorld(t, 20, passes)
	w.onPage = func() {
		if w.pages.Load()%10 == 0 {
			panic("the page cannot be made")
		}
	}
	session := w.dialMemory(newClient(), legacy)
	for range 100 {
		_, err := call(t, session, "made up", none{})
		require.Error(t, err)
	}
	require.EqualValues(t, 100, w.pages.Load())
}

// Calls wait for the names that another call reads, so all first calls have labels.
func TestConcurrentFirstCallsHaveLabels(t *testing.T) {
	const tools = 100
	w := newToolWorld(t, tools, passes)
	var arrived sync.WaitGroup
	arrived.Add(tools)
	w.server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if method == "tools/call" {
				arrived.Done()
				arrived.Wait()
			}
			return next(ctx, method, req)
		}
	})
	session := w.dialMemory(newClient(), legacy)
	tool := func(i int) string { return fmt.Sprintf("tool-%03d", i+1) }
	var calls sync.WaitGroup
	for i := range tools {
		calls.Go(func() {
			_, err := call(t, session, tool(i), none{})
			assert.NoError(t, err)
		})
	}
	calls.Wait()
	require.EqualValues(t, tools, w.pages.Load())
	for i := range tools {
		require.Equal(t, 1.0, w.Metric("mcp_server_operation_duration_seconds", adapttest.Labels{"gen_ai_tool_name": tool(i)}), tool(i))
	}
}

// A list of names that are known does not wait for the calls that read them.
func TestKnownListsTakeNoWriteLock(t *testing.T) {
	w := newWorld(t)
	session := w.dialMemory(newClient(), legacy)
	list := func() {
		_, err := session.ListTools(t.Context(), nil)
		require.NoError(t, err)
		_, err = session.ListPrompts(t.Context(), nil)
		require.NoError(t, err)
	}
	list()
	listed := make(chan struct{})
	release := gosdk.ReadNames(w.adapter)
	defer release()
	go func() {
		defer close(listed)
		list()
	}()
	adapttest.Receive(t, listed, "the lists")
}

// A middleware of the SDK may put nil into a list. The others are known.
func TestNilInListIsSkipped(t *testing.T) {
	w := newToolWorld(t, 0, func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			switch method {
			case "tools/list":
				return &sdk.ListToolsResult{Tools: []*sdk.Tool{nil, {Name: "borrowed", InputSchema: map[string]any{"type": "object"}}}}, nil
			case "prompts/list":
				return &sdk.ListPromptsResult{Prompts: []*sdk.Prompt{nil}}, nil
			}
			return lends(next)(ctx, method, req)
		}
	})
	w.server.AddPrompt(&sdk.Prompt{Name: "greet"}, func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		return &sdk.GetPromptResult{}, nil
	})
	session := w.dialMemory(newClient(), legacy)
	_, err := session.ListTools(t.Context(), nil)
	require.NoError(t, err)
	_, err = session.ListPrompts(t.Context(), nil)
	require.NoError(t, err)
	_, err = call(t, session, "borrowed", none{})
	require.NoError(t, err)
	require.Equal(t, "borrowed", w.Ended("tools/call").Tool)
}

// A tool that only lists show is known after the first list.
func TestListedToolIsALabel(t *testing.T) {
	w := newToolWorld(t, 0, func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if method == "tools/list" {
				return &sdk.ListToolsResult{Tools: []*sdk.Tool{{Name: "borrowed", InputSchema: map[string]any{"type": "object"}}}}, nil
			}
			return lends(next)(ctx, method, req)
		}
	})
	session := w.dialMemory(newClient(), legacy)
	_, err := session.ListTools(t.Context(), nil)
	require.NoError(t, err)
	_, err = call(t, session, "borrowed", none{})
	require.NoError(t, err)
	require.Equal(t, "borrowed", w.Ended("tools/call").Tool)
}
