package server_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
)

// A journal is written by middlewares and handlers.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

// take returns what was written since the last time.
func (j *journal) take() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	lines := j.lines
	j.lines = nil
	return lines
}

// middleware writes down that it was built, and each of its calls.
func (j *journal) middleware(name string) middleware.Middleware {
	return func(next middleware.Handler) middleware.Handler {
		j.add("build " + name)
		return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
			j.add(name + " before")
			defer j.add(name + " after")
			return next(ctx, req)
		}
	}
}

func TestMiddlewareOrder(t *testing.T) {
	j := &journal{}
	srv := newServer(t, server.WithMiddleware(j.middleware("a"), j.middleware("b")), server.WithMiddleware(j.middleware("c")))
	built := j.take()
	for _, name := range []string{"a", "b", "c"} {
		line := "build " + name
		require.Equal(t, len(built)/3, len(slices.DeleteFunc(slices.Clone(built), func(s string) bool { return s != line })), line)
	}
	server.AddTool(srv, server.Tool{Name: "x", Middleware: []middleware.Middleware{j.middleware("t"), j.middleware("u")}},
		func(context.Context, *server.Call, none) (string, error) {
			j.add("handler")
			return "", errors.New("a tool error is a result")
		})
	require.Equal(t, []string{"build u", "build t", "build c", "build b", "build a"}, j.take(), "from the inside out, once")

	client := servertest.Connect(t, srv)
	calls := func(f func()) []string {
		f()
		return j.take()
	}
	for range 2 { // the chain is not built again
		require.Equal(t, []string{"a before", "b before", "c before", "t before", "u before", "handler",
			"u after", "t after", "c after", "b after", "a after"},
			calls(func() { _, _ = client.CallTool(t.Context(), "x", nil) }))
	}
	own := []string{"a before", "b before", "c before", "c after", "b after", "a after"}
	require.Equal(t, own, calls(func() { _, _ = client.CallTool(t.Context(), "nope", nil) }), "unknown tool")
	require.Equal(t, own, calls(func() { _, _ = client.ListTools(t.Context()) }), "list")
	require.Equal(t, own, calls(func() { _, _ = client.Call(t.Context(), "no/such", nil) }), "unknown method")
	require.Equal(t, []string{"a before", "b before", "c before", "t before", "u before",
		"u after", "t after", "c after", "b after", "a after"},
		calls(func() { _, _ = client.CallTool(t.Context(), "x", map[string]any{"bad": 1}) }), "bad arguments")
}

// A middleware sees everything about a request, in both eras.
func TestMiddlewareSeesTheRequest(t *testing.T) {
	seen := make(chan *middleware.Request, 10)
	srv := newServer(t, server.WithMiddleware(func(next middleware.Handler) middleware.Handler {
		return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
			seen <- req
			return next(ctx, req)
		}
	}))
	server.AddTool(srv, server.Tool{Name: "x"}, text(""))
	info := mcp.Implementation{Name: "c", Version: "3", Title: "Client"}
	caps := mcp.ClientCapabilities{
		Roots: &mcp.RootsCapability{ListChanged: true}, Sampling: &mcp.SamplingCapability{},
		Elicitation: &mcp.ElicitationCapability{URL: &struct{}{}},
	}
	for _, tt := range []struct {
		version mcp.Version
		era     mcp.Era
	}{
		{mcp.Version20260728, mcp.Modern},
		{mcp.Version20251125, mcp.Legacy},
		{mcp.Version20241105, mcp.Legacy},
	} {
		t.Run(string(tt.version), func(t *testing.T) {
			opts := []servertest.Option{servertest.ClientInfo(info), servertest.Capabilities(caps)}
			if tt.era == mcp.Legacy {
				opts = append(opts, servertest.Legacy(tt.version))
			}
			client := servertest.Connect(t, srv, opts...)
			if tt.era == mcp.Legacy {
				require.Equal(t, "initialize", (<-seen).Method)
			}
			_, err := client.CallTool(t.Context(), "x", nil)
			require.NoError(t, err)
			req := <-seen
			require.Equal(t, "tools/call", req.Method)
			require.Equal(t, "x", req.Route.Target)
			require.Contains(t, string(req.Params), `"name":"x"`)
			require.Equal(t, tt.era, req.Peer.Era)
			require.Equal(t, tt.version, req.Peer.Version)
			require.Equal(t, info, req.Client())
			require.Equal(t, caps, req.Capabilities())
			require.Equal(t, "memory", req.Peer.Transport)

			_, err = client.CallTool(t.Context(), "unregistered", nil)
			require.Error(t, err)
			req = <-seen
			require.Empty(t, req.Route.Target, "a name from the wire is no label")
			require.Equal(t, "unregistered", req.Target)
		})
	}
}

type contextKey struct{}

func TestMiddlewareChangesRequestsAndResults(t *testing.T) {
	wrap := func(f func(ctx context.Context, req *middleware.Request, next middleware.Handler) (mcp.Result, error)) middleware.Middleware {
		return func(next middleware.Handler) middleware.Handler {
			return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) { return f(ctx, req, next) }
		}
	}
	called := 0
	for _, tt := range []struct {
		name string
		wrap middleware.Middleware
		want string
		runs int
	}{
		{"changes the context", wrap(func(ctx context.Context, req *middleware.Request, next middleware.Handler) (mcp.Result, error) {
			return next(context.WithValue(ctx, contextKey{}, "from the middleware"), req)
		}), result(1, `"content":[{"type":"text","text":"from the middleware"}],`+serverMeta), 1},
		{"changes the result", wrap(func(ctx context.Context, req *middleware.Request, next middleware.Handler) (mcp.Result, error) {
			res, err := next(ctx, req)
			res.(*mcp.CallToolResult).Content = append(res.(*mcp.CallToolResult).Content, &mcp.TextContent{Text: "more"})
			*res.ResultMetadata() = mcp.Meta{"example.com/k": true}
			return res, err
		}), result(1, `"resultType":"complete","content":[{"type":"text","text":""},{"type":"text","text":"more"}],
			"_meta":{"example.com/k":true,"io.modelcontextprotocol/serverInfo":{"name":"test","version":"1"}}`), 1},
		{"answers by itself", wrap(func(context.Context, *middleware.Request, middleware.Handler) (mcp.Result, error) {
			return mcp.ToolErrorResult("not today"), nil
		}), result(1, toolErrorOf("not today")), 0},
		{"refuses", wrap(func(context.Context, *middleware.Request, middleware.Handler) (mcp.Result, error) {
			return nil, mcp.NewError(-31001, "no")
		}), failure(1, -31001, "no"), 0},
		{"fails", wrap(func(context.Context, *middleware.Request, middleware.Handler) (mcp.Result, error) {
			return nil, errors.New("secret")
		}), result(1, toolErrorOf("the tool failed")), 0},
		{"panics", wrap(func(context.Context, *middleware.Request, middleware.Handler) (mcp.Result, error) {
			panic("secret")
		}), failure(1, -32603, "internal error"), 0},
		{"answers nothing", wrap(func(context.Context, *middleware.Request, middleware.Handler) (mcp.Result, error) {
			return nil, nil
		}), result(1, serverMeta), 0},
		{"turns an error into a result", wrap(func(ctx context.Context, req *middleware.Request, next middleware.Handler) (mcp.Result, error) {
			_, _ = next(ctx, req)
			return &mcp.EmptyResult{}, nil
		}), result(1, serverMeta), 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := newServer(t, server.WithMiddleware(tt.wrap))
			called = 0
			server.AddTool(srv, server.Tool{Name: "x"}, func(ctx context.Context, _ *server.Call, _ none) (string, error) {
				called++
				s, _ := ctx.Value(contextKey{}).(string)
				return s, nil
			})
			require.JSONEq(t, tt.want, dial(t, srv).ask(modern(1, "tools/call", call("x", `{}`))))
			require.Equal(t, tt.runs, called)
		})
	}
}

func TestDeadlineIsEnforced(t *testing.T) {
	for _, tt := range []struct {
		name   string
		tool   time.Duration
		limits server.Limits
		want   time.Duration
	}{
		{name: "default", want: time.Minute},
		{name: "of the server", limits: server.Limits{RequestTimeout: 7 * time.Second}, want: 7 * time.Second},
		{name: "of the tool", tool: 5 * time.Second, want: 5 * time.Second},
		{name: "of the tool, not of the server", tool: 10 * time.Second, limits: server.Limits{RequestTimeout: 3 * time.Second},
			want: 10 * time.Second},
		{name: "longer than the default", tool: 5 * time.Minute, want: 5 * time.Minute},
		{name: "the maximum holds", tool: time.Hour,
			limits: server.Limits{MaxRequestTimeout: 2 * time.Minute}, want: 2 * time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newServer(t, server.WithLimits(tt.limits))
				causes := make(chan error, 1)
				server.AddTool(srv, server.Tool{Name: "x", Deadline: tt.tool},
					func(ctx context.Context, _ *server.Call, _ none) (string, error) {
						<-ctx.Done()
						causes <- context.Cause(ctx)
						return "late", nil
					})
				client := servertest.Connect(t, srv)
				begin := time.Now()
				_, err := client.CallTool(t.Context(), "x", nil)
				require.Equal(t, tt.want, time.Since(begin))
				rpc, ok := mcp.AsError(err)
				require.True(t, ok, "%v", err)
				require.Equal(t, mcp.CodeInternalError, rpc.Code)
				require.Equal(t, "deadline", rpc.Data.(map[string]any)["reason"])
				require.ErrorIs(t, <-causes, mcp.ErrDeadline)
			})
		})
	}
}

// Time in the queue counts against the deadline. The handler of a call that ends in the queue is
// not called.
func TestConcurrencyIsEnforced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		class := server.NewClass("db", 2)
		srv := newServer(t)
		var running, most, begun int
		var mu sync.Mutex
		release := make(chan struct{})
		work := func(ctx context.Context, _ *server.Call, _ none) (string, error) {
			mu.Lock()
			running++
			begun++
			most = max(most, running)
			mu.Unlock()
			defer func() { mu.Lock(); running--; mu.Unlock() }()
			select {
			case <-release:
			case <-ctx.Done():
			}
			return "", nil
		}
		server.AddTool(srv, server.Tool{Name: "a", Class: class, Deadline: 10 * time.Second}, work)
		server.AddTool(srv, server.Tool{Name: "b", Class: class, Deadline: 10 * time.Second}, work)
		server.AddTool(srv, server.Tool{Name: "free"}, text("free"))
		p, q := dial(t, srv), dial(t, srv)
		for id := range 3 {
			p.send(modern(id, "tools/call", call("a", `{}`)))
			q.send(modern(id, "tools/call", call("b", `{}`)))
		}
		synctest.Wait()
		require.Equal(t, 2, begun, "the class is shared by the tools and the clients")
		require.Contains(t, p.ask(modern("f", "tools/call", call("free", `{}`))), "free", "others go on")

		release <- struct{}{}
		synctest.Wait()
		require.Equal(t, 3, begun)
		close(release)
		for range 3 {
			require.Contains(t, p.recv(), `"result"`)
			require.Contains(t, q.recv(), `"result"`)
		}
		require.Equal(t, 2, most)
		require.Equal(t, 6, begun)
	})
}

func TestDeadlineInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		class := server.NewClass("one", 1)
		release := make(chan struct{})
		server.AddTool(srv, server.Tool{Name: "slow", Class: class},
			func(context.Context, *server.Call, none) (string, error) { <-release; return "", nil })
		server.AddTool(srv, server.Tool{Name: "x", Class: class, Deadline: time.Second},
			func(context.Context, *server.Call, none) (string, error) {
				t.Error("the handler was called")
				return "", nil
			})
		p := dial(t, srv)
		p.send(modern(1, "tools/call", call("slow", `{}`)))
		synctest.Wait()
		require.JSONEq(t, `{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"the request took longer than its deadline of 1s",
			"data":{"reason":"deadline","phase":"queued","class":{"name":"one","limit":1,"inUse":1,"queued":1}}}}`, p.ask(modern(2, "tools/call", call("x", `{}`))))
		close(release)
		require.Contains(t, p.recv(), `"id":1,"result"`)
	})
}

func TestLogging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs := &logRecorder{}
		srv := newServer(t, server.WithMiddleware(middleware.Logging(slog.New(logs))))
		server.AddTool(srv, server.Tool{Name: "x"}, func(ctx context.Context, _ *server.Call, _ none) (string, error) {
			time.Sleep(2 * time.Second)
			return "", nil
		})
		server.AddTool(srv, server.Tool{Name: "fails"},
			func(context.Context, *server.Call, none) (string, error) { return "", mcp.NewError(-31002, "full") })
		causes := addWait(srv, "wait")
		p := dial(t, srv)
		p.ask(modern("id", "tools/call", call("x", `{}`)))
		p.ask(modern(1, "tools/call", call("fails", `{}`)))
		p.send(modern(2, "tools/call", call("wait", `{}`)))
		synctest.Wait()
		p.send(cancelled(2))
		<-causes
		synctest.Wait()
		require.Equal(t, []logRecord{
			{slog.LevelInfo, "request.handled", map[string]string{"method": "tools/call", "target": "x", "id": "id", "took": "2s"}},
			{slog.LevelWarn, "request.handled", map[string]string{"method": "tools/call", "target": "fails", "id": "1", "took": "0s", "error": "full (-31002)"}},
			{slog.LevelInfo, "request.handled", map[string]string{"method": "tools/call", "target": "wait", "id": "2", "took": "0s", "cause": "client_cancel"}},
		}, logs.find("request.handled"))
	})
}

// The name of a class is a label of metrics, which must be UTF-8.
func TestNamesOfClassesMustBePrintable(t *testing.T) {
	for name, fault := range map[string]string{
		"":                       `class "": the name must have 1 to 128 bytes`,
		strings.Repeat("a", 129): "the name must have 1 to 128 bytes",
		"db\xff":                 `class "db\xff": the name has a character that cannot be printed`,
		"d\nb":                   `class "d\nb": the name has a character that cannot be printed`,
	} {
		class := server.NewClass(name, 1)
		_, err := server.TryNew("test", "1", server.WithClass(class))
		require.ErrorContains(t, err, fault)
		require.ErrorContains(t, server.TryAddTool(newServer(t), server.Tool{Name: "x", Class: class}, text("")), fault)
	}
	_, err := server.TryNew("test", "1", server.WithClass(server.NewClass("Datenbank für Ann", 1)))
	require.NoError(t, err)
}
