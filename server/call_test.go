package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
)

// addWait registers a tool that waits for its context and reports the cause.
func addWait(srv *server.Server, name string) (causes <-chan error) {
	c := make(chan error, 100)
	server.AddTool(srv, server.Tool{Name: name}, func(ctx context.Context, _ *server.Call, _ none) (string, error) {
		<-ctx.Done()
		c <- context.Cause(ctx)
		return "late", nil
	})
	return c
}

func progressFrame(params string) string {
	return `{"jsonrpc":"2.0","method":"notifications/progress","params":{` + params + `}}`
}

func TestProgress(t *testing.T) {
	type step struct {
		progress, total float64
		message         string
	}
	for _, tt := range []struct {
		name  string
		meta  string // of the request
		steps []step
		want  []string // params of the notifications
	}{
		{"string token", `"progressToken":"a\"\u00e9"`, []step{{1, 2, "half"}}, []string{`"progressToken":"a\"\u00e9","progress":1,"total":2,"message":"half"`}},
		{"integer token", `"progressToken":0`, []step{{0.5, 0, ""}}, []string{`"progressToken":0,"progress":0.5`}},
		{"odd integer token", `"progressToken":1.0`, []step{{1, 0, ""}}, []string{`"progressToken":1.0,"progress":1`}},
		{"no token", ``, []step{{1, 2, ""}, {2, 2, ""}}, nil},
		{"strictly increasing", `"progressToken":1`,
			[]step{{-1, 0, ""}, {-1, 0, "again"}, {0, 0, ""}, {3, 0, ""}, {2, 0, "back"}, {3, 0, "same"}, {3.25, 0, ""}},
			[]string{`"progressToken":1,"progress":-1`, `"progressToken":1,"progress":0`, `"progressToken":1,"progress":3`, `"progressToken":1,"progress":3.25`}},
		{"large numbers", `"progressToken":1`, []step{{1234567, 4e9, ""}, {1e300, 0, ""}},
			[]string{`"progressToken":1,"progress":1234567,"total":4000000000`, `"progressToken":1,"progress":1e+300`}},
		{"text", `"progressToken":1`, []step{{1, 0, "a\n\"b\" \xff"}}, []string{`"progressToken":1,"progress":1,"message":"a\n\"b\" ` + "\ufffd" + `"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newServer(t)
				server.AddTool(srv, server.Tool{Name: "x"}, func(_ context.Context, c *server.Call, _ none) (string, error) {
					for _, s := range tt.steps {
						if err := c.Progress(s.progress, s.total, s.message); err != nil {
							return "", err
						}
					}
					return "done", nil
				})
				p := dial(t, srv)
				check := func(answer string) {
					t.Helper()
					for _, want := range tt.want {
						require.Equal(t, progressFrame(want), p.recv())
					}
					require.JSONEq(t, answer, p.recv())
					p.silent()
				}
				block := `"content":[{"type":"text","text":"done"}]`
				if tt.meta == "" {
					p.send(modern(1, "tools/call", call("x", `{}`)))
				} else {
					p.send(modern(1, "tools/call", call("x", `{}`), tt.meta))
				}
				check(result(1, block+`,`+serverMeta))
				p.initialize("2025-03-26")
				p.send(legacy(1, "tools/call", `"_meta":{`+tt.meta+`},`+call("x", `{}`)))
				check(result(1, block))
			})
		})
	}
}

// The message came with 2025-03-26. Older clients get the numbers.
func TestProgressForOlderClients(t *testing.T) {
	srv := newServer(t)
	server.AddTool(srv, server.Tool{Name: "x"}, func(_ context.Context, c *server.Call, _ none) (string, error) {
		return "done", errors.Join(c.Progress(1, 2, "half"), c.Progress(2, 0, "all"))
	})
	for version, message := range map[string]string{
		"2025-11-25": `,"message":`, "2025-06-18": `,"message":`, "2025-03-26": `,"message":`, "2024-11-05": "",
	} {
		t.Run(version, func(t *testing.T) {
			text := func(s string) string {
				if message == "" {
					return ""
				}
				return message + s
			}
			p := dial(t, srv)
			p.initialize(version)
			p.send(legacy(1, "tools/call", `"_meta":{"progressToken":7},`+call("x", `{}`)))
			require.Equal(t, progressFrame(`"progressToken":7,"progress":1,"total":2`+text(`"half"`)), p.recv())
			require.Equal(t, progressFrame(`"progressToken":7,"progress":2`+text(`"all"`)), p.recv())
			require.JSONEq(t, result(1, `"content":[{"type":"text","text":"done"}]`), p.recv())
		})
	}
}

// A legacy client may send any value as its token. An invalid token is not echoed.
func TestInvalidProgressToken(t *testing.T) {
	for _, token := range []string{`null`, `true`, `{}`, `[1]`, `1.5`} {
		synctest.Test(t, func(t *testing.T) {
			srv := newServer(t)
			server.AddTool(srv, server.Tool{Name: "x"}, func(_ context.Context, c *server.Call, _ none) (string, error) {
				return fmt.Sprint(c.ProgressToken() == nil), c.Progress(1, 2, "")
			})
			p := dial(t, srv)
			p.initialize("2025-11-25")
			require.JSONEq(t, result(1, `"content":[{"type":"text","text":"true"}]`),
				p.ask(legacy(1, "tools/call", `"_meta":{"progressToken":`+token+`},`+call("x", `{}`))))
		})
	}
}

func TestProgressIsANumber(t *testing.T) {
	srv := newServer(t)
	server.AddTool(srv, server.Tool{Name: "x"}, func(_ context.Context, c *server.Call, _ none) (string, error) {
		for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			require.ErrorContains(t, c.Progress(bad, 0, ""), "is not a number")
			require.ErrorContains(t, c.Progress(0, bad, ""), "is not a number")
		}
		return "ok", nil
	})
	_, err := servertest.Connect(t, srv, servertest.OnProgress(func(p servertest.Progress) {
		t.Errorf("unexpected: %v", p)
	})).CallTool(t.Context(), "x", nil)
	require.NoError(t, err)
}

// The client reads growing values, also if many goroutines report.
func TestProgressFromManyGoroutines(t *testing.T) {
	srv := newServer(t)
	server.AddTool(srv, server.Tool{Name: "x"}, func(_ context.Context, c *server.Call, _ none) (string, error) {
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for i := range 100 {
					_ = c.Progress(float64(8*i+g), 800, "")
				}
			})
		}
		wg.Wait()
		return "ok", nil
	})
	last := math.Inf(-1)
	client := servertest.Connect(t, srv, servertest.OnProgress(func(p servertest.Progress) {
		if p.Progress <= last {
			t.Errorf("progress %v after %v", p.Progress, last)
		}
		last = p.Progress
	}))
	for range 20 {
		_, err := client.CallTool(t.Context(), "x", nil)
		require.NoError(t, err)
		last = math.Inf(-1)
	}
}

// After the answer nothing is sent about a call.
func TestProgressAfterReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		kept := make(chan *server.Call, 1)
		server.AddTool(srv, server.Tool{Name: "x"}, func(_ context.Context, c *server.Call, _ none) (string, error) {
			kept <- c
			return "ok", nil
		})
		p := dial(t, srv)
		p.ask(modern(1, "tools/call", call("x", `{}`), `"progressToken":1`))
		require.ErrorIs(t, (<-kept).Progress(1, 2, "late"), mcp.ErrRequestDone)
		p.silent()
	})
}

func TestCancel(t *testing.T) {
	for _, tt := range []struct {
		name string
		id   any
		ask  func(id any, method, params string) string
	}{
		{"modern", 1, func(id any, method, params string) string { return modern(id, method, params) }},
		{"modern, string id", "a b", func(id any, method, params string) string { return modern(id, method, params) }},
		{"legacy", 0, legacy},
		{"legacy, empty id", "", legacy},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				logs := &logRecorder{}
				srv := newServer(t, server.WithLogger(slog.New(logs)))
				causes := addWait(srv, "wait")
				server.AddTool(srv, server.Tool{Name: "hi"}, text("hello"))
				p := dial(t, srv)
				p.initialize("2025-11-25")
				p.send(tt.ask(tt.id, "tools/call", call("wait", `{}`)))
				p.silent()
				p.send(cancelled(tt.id))
				cause := <-causes
				require.ErrorIs(t, cause, mcp.ErrClientCancelled)
				require.ErrorIs(t, cause, context.Canceled)
				require.NotContains(t, cause.Error(), "changed my mind")
				p.silent() // the late result goes nowhere
				require.Equal(t, "changed my mind", logs.find("request.cancelled")[0].attrs["reason"])

				// The id is free, a second cancel hits nobody, and the session goes on.
				p.send(cancelled(tt.id))
				answer := p.ask(tt.ask(tt.id, "tools/call", call("hi", `{}`)))
				require.Contains(t, answer, `"text":"hello"`)
			})
		})
	}
}

// The id is free at once, even while the old handler still runs; its late result
// must not reach the new request.
func TestCancelledIDIsReusedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		release := make(chan string)
		server.AddTool(srv, server.Tool{Name: "stubborn"},
			func(context.Context, *server.Call, none) (string, error) { return <-release, nil })
		p := dial(t, srv)
		p.send(modern(1, "tools/call", call("stubborn", `{}`)))
		synctest.Wait()
		p.send(cancelled(1), modern(1, "tools/call", call("stubborn", `{}`)))
		synctest.Wait()
		release <- "one of the two"
		synctest.Wait()
		release <- "one of the two"
		require.Contains(t, p.recv(), "one of the two")
		p.silent()
	})
}

// A cancel of an unknown request is ignored.
func TestCancelWithoutARequestIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		causes := addWait(srv, "wait")
		p := dial(t, srv)
		other := dial(t, srv)
		p.send(modern(1, "tools/call", call("wait", `{}`)))
		synctest.Wait()
		for _, miss := range []string{
			cancelled("1"), cancelled(2), cancelled("init"),
			`{"jsonrpc":"2.0","method":"notifications/cancelled"}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":null}}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":true}}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[1]}}`,
			`{"jsonrpc":"2.0","method":"notifications/unheard","params":{"requestId":1}}`,
		} {
			p.send(miss)
		}
		other.send(cancelled(1)) // another client's 1
		p.silent()
		require.Empty(t, causes)
		p.send(strings.Replace(cancelled(1), `:1,`, `:1.0,`, 1)) // the same id in another form
		require.ErrorIs(t, <-causes, mcp.ErrClientCancelled)
		// A cancel before its request is not remembered.
		p.send(cancelled(9))
		require.JSONEq(t, result(9, `"tools":[{"name":"wait","inputSchema":{"type":"object","additionalProperties":false}}],"ttlMs":0,"cacheScope":"public",`+serverMeta),
			p.ask(modern(9, "tools/list", "")))
	})
}

// A handler that reports progress learns of the cancel, and its later reports are not sent.
func TestProgressOfCancelledCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		got := make(chan error, 1)
		server.AddTool(srv, server.Tool{Name: "x"}, func(ctx context.Context, c *server.Call, _ none) (string, error) {
			<-ctx.Done()
			got <- c.Progress(1, 2, "")
			return "", nil
		})
		p := dial(t, srv)
		p.send(modern(1, "tools/call", call("x", `{}`), `"progressToken":1`))
		synctest.Wait()
		p.send(cancelled(1))
		require.Error(t, <-got)
		p.silent()
	})
}

// On a pipe an answer with the id would resolve the first request, so that the
// second one's error has none.
func TestDuplicateID(t *testing.T) {
	for _, id := range []any{1, "", "a"} {
		t.Run(fmt.Sprintf("%q", id), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newServer(t)
				causes := addWait(srv, "wait")
				p := dial(t, srv)
				p.send(modern(id, "tools/call", call("wait", `{}`)))
				require.JSONEq(t, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"a request with this id is still in flight",
					"data":{"reason":"duplicate_id","id":`+jsonID(id)+`}}}`, p.ask(modern(id, "tools/list", "")))
				synctest.Wait() // until the handler runs
				require.Empty(t, causes)
				p.send(cancelled(id))
				require.ErrorIs(t, <-causes, mcp.ErrClientCancelled)
			})
		})
	}
}

func TestSameIDOnTwoPipes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		causes := addWait(srv, "wait")
		server.AddTool(srv, server.Tool{Name: "hi"}, text("hello"))
		a, b := dial(t, srv), dial(t, srv)
		a.send(modern(1, "tools/call", call("wait", `{}`)))
		require.Contains(t, b.ask(modern(1, "tools/call", call("hi", `{}`))), "hello")
		synctest.Wait() // until the handler runs
		require.Empty(t, causes)
		a.send(cancelled(1))
		<-causes
	})
}

// Limits bound the requests in flight of one client. Further requests wait.
func TestRequestsWaitForASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t, server.WithLimits(server.Limits{MaxInFlight: 2, MaxQueue: 1}))
		release := make(chan struct{})
		server.AddTool(srv, server.Tool{Name: "x"}, func(context.Context, *server.Call, none) (string, error) {
			<-release
			return "", nil
		})
		p := dial(t, srv)
		for id := range 3 {
			p.send(modern(id, "tools/call", call("x", `{}`)))
		}
		require.JSONEq(t, `{"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"the server is overloaded: max_queue is reached",
			"data":{"reason":"overload","limit":"max_queue"}}}`, p.ask(modern(3, "tools/call", call("x", `{}`))))
		close(release)
		for range 3 {
			require.Contains(t, p.recv(), `"result"`)
		}
	})
}

func TestRequestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t, server.WithLimits(server.Limits{RequestTimeout: 3 * time.Second}))
		causes := addWait(srv, "wait")
		p := dial(t, srv)
		begin := time.Now()
		require.JSONEq(t, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"the request took longer than its deadline of 3s",
			"data":{"reason":"deadline","limit":"request_timeout"}}}`, p.ask(modern(1, "tools/call", call("wait", `{}`))))
		require.Equal(t, 3*time.Second, time.Since(begin))
		cause := <-causes
		require.ErrorIs(t, cause, mcp.ErrDeadline)
		require.ErrorIs(t, cause, context.DeadlineExceeded)
		p.silent()
	})
}

// A Call has everything about its request.
func TestCallIsARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		seen := make(chan *server.Call, 1)
		server.AddTool(srv, server.Tool{Name: "x"}, func(ctx context.Context, c *server.Call, _ map[string]any) (string, error) {
			end, ok := ctx.Deadline()
			if !ok || !end.Equal(c.Deadline()) || !c.ArrivedAt.Equal(time.Now()) {
				return "", errors.New("the times are wrong")
			}
			seen <- c
			return "", nil
		})
		p := dial(t, srv)
		require.NotContains(t, p.ask(modern("id", "tools/call", call("x", `{"a":[1, 2]}`),
			`"io.modelcontextprotocol/clientInfo":{"name":"new","version":"2"},"example.com/x":1`)), "isError")
		c := <-seen
		require.Equal(t, "id", c.ID.String())
		require.Equal(t, "tools/call", c.Method)
		require.Equal(t, "x", c.Route.Target)
		require.Equal(t, mcp.Modern, c.Peer.Era)
		require.Equal(t, mcp.LatestVersion, c.Peer.Version)
		require.Equal(t, mcp.Implementation{Name: "new", Version: "2"}, c.Client())
		require.Equal(t, mcp.ClientCapabilities{}, c.Capabilities())
		require.Equal(t, 1.0, c.Meta()["example.com/x"])
		require.Equal(t, "memory", c.Peer.Transport)
		require.Empty(t, c.Peer.Addr)
		require.Nil(t, c.Header)
		require.Empty(t, c.Peer.SessionID)
		require.Nil(t, c.ProgressToken())
		require.Contains(t, string(c.Params), `{"a":[1, 2]}`, "the bytes of the client")

		p.initialize("2025-06-18")
		p.ask(legacy(1.0, "tools/call", call("x", `{}`)))
		c = <-seen
		require.Equal(t, mcp.Legacy, c.Peer.Era)
		require.Equal(t, mcp.Version20250618, c.Peer.Version)
		require.Equal(t, mcp.Implementation{Name: "old", Version: "9"}, c.Client())
		require.Equal(t, mcp.ClientCapabilities{Roots: &mcp.RootsCapability{}}, c.Capabilities())
		require.Nil(t, c.Meta())
	})
}
