package server_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

type nudge struct {
	Hard bool `json:"hard"`
}

func notification(method, params string) string {
	return `{"jsonrpc":"2.0","method":"` + method + `","params":{` + params + `}}`
}

func TestNotification(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs := &logRecorder{}
		srv := newServer(t, server.WithLogger(slog.New(logs)))
		server.AddExtension(srv, server.Extension{ID: thing})
		const name = "notifications/com.example/thing"
		got := make(chan string, 10)
		server.AddNotification(srv, name, thing, func(_ context.Context, n *server.Notice, in nudge) {
			_, declared := n.Extension(thing)
			require.Equal(t, name, n.Method())
			require.Empty(t, n.SessionID())
			require.Nil(t, n.Header())
			if in.Hard {
				panic("ouch")
			}
			if declared {
				got <- "declared"
			} else {
				got <- "nudged"
			}
		})
		p := dial(t, srv)
		p.send(notification(name, `"hard":false,`+`"_meta":{`+modernMeta+`}`))
		require.Equal(t, "nudged", <-got)
		p.initializeWith(declares(thing))
		p.send(notification(name, `"hard":false`))
		require.Equal(t, "declared", <-got)
		for _, bad := range []string{``, `"hard":1`, `"hard":false,"soft":true`} {
			p.send(notification(name, bad))
		}
		p.send(notification("notifications/com.example/unheard", ""))
		p.silent()
		require.Empty(t, got, "what does not fit does not get there")
		require.Len(t, logs.find("notification.malformed"), 3)

		p.send(notification(name, `"hard":true`))
		p.silent()
		require.Len(t, logs.find("notification.panic"), 1)
		p.send(notification(name, `"hard":false`))
		require.Equal(t, "declared", <-got, "the connection goes on")
	})
}

// Over HTTP there is a session in the legacy era only.
func TestNotificationOverHTTP(t *testing.T) {
	srv := newServer(t)
	got := make(chan *server.Notice, 1)
	server.AddNotification(srv, "x/nudge", "", func(_ context.Context, n *server.Notice, _ none) { got <- n })
	url := listen(t, srv)
	res, _ := exchange(t, "POST", url, notification("x/nudge", `"_meta":{`+modernMeta+`}`), "Mcp-Protocol-Version: 2026-07-28", "X-Tenant: a")
	require.Equal(t, 202, res.StatusCode)
	n := <-got
	require.Equal(t, "a", n.Header().Get("X-Tenant"))
	require.Empty(t, n.SessionID())

	res, _ = exchange(t, "POST", url, legacy(1, "initialize", `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}`))
	id := res.Header.Get("Mcp-Session-Id")
	res, _ = exchange(t, "POST", url, notification("x/nudge", ""), "Mcp-Session-Id: "+id)
	require.Equal(t, 202, res.StatusCode)
	require.Equal(t, id, (<-got).SessionID())
	require.NoError(t, srv.Shutdown(t.Context()))
}

func TestBadNotifications(t *testing.T) {
	srv := newServer(t)
	handler := func(context.Context, *server.Notice, none) {}
	server.AddNotification(srv, "x/nudge", "", handler)
	for name, extension := range map[string]string{
		"": "", "notifications/progress": "", "notifications/tasks": "", "x/other": thing,
	} {
		require.Error(t, server.TryAddNotification(srv, name, extension, handler), name)
		require.Panics(t, func() { server.AddNotification(srv, name, extension, handler) }, name)
	}
	require.Error(t, server.TryAddNotification[none](srv, "x/y", "", nil))
	require.Error(t, server.TryAddNotification(srv, "x/y", "", func(context.Context, *server.Notice, []int) {}))
}

func TestCallNotify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		kept := make(chan *server.Call, 2)
		server.AddTool(srv, server.Tool{Name: "x"}, func(_ context.Context, c *server.Call, _ none) (string, error) {
			for _, bad := range []string{"", "notifications/message", "notifications/tasks", "tools/list", "a b"} {
				require.ErrorContains(t, c.Notify(bad, nil), "method name", bad)
			}
			require.ErrorContains(t, c.Notify("x/y", 1), "must encode to a JSON object")
			require.ErrorContains(t, c.Notify("x/y", func() {}), "encode the params of x/y")
			require.NoError(t, c.Notify("notifications/com.example/thing", map[string]int{"n": 1}))
			require.NoError(t, c.Notify("x/bare", nil))
			kept <- c
			return "done", nil
		})
		p := dial(t, srv)
		p.initialize("2025-11-25")
		for _, request := range []string{modern(1, "tools/call", call("x", `{}`)), legacy(1, "tools/call", call("x", `{}`))} {
			p.send(request)
			require.JSONEq(t, notification("notifications/com.example/thing", `"n":1`), p.recv())
			require.JSONEq(t, `{"jsonrpc":"2.0","method":"x/bare"}`, p.recv())
			require.Contains(t, p.recv(), `"done"`)
			p.silent()
			require.ErrorIs(t, (<-kept).Notify("x/y", nil), mcp.ErrRequestDone)
		}
	})
}
