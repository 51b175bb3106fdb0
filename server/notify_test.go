package server_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
)

const (
	happened = "notifications/com.example/happened"
	toThing  = `{"com.example/thing":true}`
)

// listenWith is a subscriptions/listen of a client that declares an extension.
func listenWith(id any, extension, filter string) string {
	return withCaps(id, "subscriptions/listen", declares(extension), `"notifications":`+filter)
}

// thingServer returns a server with the extension thing.
func thingServer(t *testing.T, opts ...server.Option) *server.Server {
	srv := newServer(t, opts...)
	server.AddExtension(srv, server.Extension{ID: thing})
	return srv
}

// Subscribers get each event, in order. Nobody else gets it.
func TestNotify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := thingServer(t)
		server.AddExtension(srv, server.Extension{ID: "com.example/other"})
		declared, experimental, old, both := dial(t, srv), dial(t, srv), dial(t, srv), dial(t, srv)
		declared.initializeWith(declares(thing))
		declared.send(notice("notifications/initialized", "")) // again
		experimental.initializeWith(`"experimental":{"com.example/thing":{}}`)
		old.initializeWith(declares("com.example/other"))
		require.JSONEq(t, acknowledged(1, toThing), both.ask(listenWith(1, thing, toThing)))
		require.JSONEq(t, acknowledged("b", toThing), both.ask(listenWith("b", thing, toThing)))
		require.JSONEq(t, acknowledged(3, `{"toolsListChanged":true}`), both.ask(listenWith(3, thing, `{"toolsListChanged":true,"com.example/thing":false}`)))
		synctest.Wait()

		for i := range 3 {
			require.NoError(t, srv.Notify(thing, happened, map[string]int{"n": i}))
		}
		for i := range 3 {
			n := fmt.Sprintf(`"n":%d`, i)
			require.JSONEq(t, notification(happened, n), declared.recv())
			require.JSONEq(t, notification(happened, n), experimental.recv())
		}
		synctest.Wait()
		told := map[string][]string{}
		for range 6 {
			line := both.recv()
			var id string
			for _, of := range []any{1, "b"} {
				for i := range 3 {
					if canonical(t, line) == canonical(t, about(of, happened, fmt.Sprintf(`"n":%d`, i))) {
						id = fmt.Sprint(of)
						told[id] = append(told[id], fmt.Sprint(i))
					}
				}
			}
			require.NotEmpty(t, id, line)
		}
		require.Equal(t, map[string][]string{"1": {"0", "1", "2"}, "b": {"0", "1", "2"}}, told)

		both.send(cancelled("b"))
		synctest.Wait()
		for _, empty := range []any{nil, struct{}{}, jsontext.Value("{ }")} {
			require.NoError(t, srv.Notify(thing, happened, empty))
			require.JSONEq(t, about(1, happened, ""), both.recv())
			require.Contains(t, []string{notice(happened, ""), notice(happened, "{}")}, declared.recv())
			experimental.recv()
		}
		for _, p := range []*rawPipe{declared, experimental, old, both} {
			p.silent()
		}
		require.NoError(t, srv.Notify("com.example/other", happened, nil))
		require.Equal(t, notice(happened, ""), old.recv())
		declared.silent()
		both.silent()
		for _, p := range []*rawPipe{declared, experimental, old, both} {
			require.NoError(t, p.hangUp())
		}
		conserved(t, srv)
	})
}

func canonical(t *testing.T, text string) string {
	t.Helper()
	v := jsontext.Value(text)
	require.NoError(t, v.Canonicalize())
	return string(v)
}

// The acknowledged filter has the extensions that the server has and the client has declared.
func TestListenToExtensions(t *testing.T) {
	srv := thingServer(t, server.WithTasks(server.Tasks{}))
	p := dial(t, srv)
	for _, tt := range []struct{ declared, filter, want string }{
		{thing, toThing, acknowledged(1, toThing)},
		{thing, `{"com.example/thing":true,"com.example/other":{"deep":true},"x":1}`, acknowledged(1, toThing)},
		{thing, `{"com.example/thing":false}`, acknowledged(1, `{}`)},
		{"com.example/other", `{"com.example/thing":false}`, acknowledged(1, `{}`)},
		{mcp.ExtensionTasks, `{"io.modelcontextprotocol/tasks":true}`, acknowledged(1, `{}`)},
		{thing, `{"com.example/thing":1}`, failure(1, -32602, "params.notifications.com.example/thing must be a boolean")},
		{thing, `{"com.example/thing":null}`, failure(1, -32602, "params.notifications.com.example/thing must be a boolean")},
		{"com.example/other", toThing, `{"jsonrpc":"2.0","id":1,"error":{"code":-32021,"message":"the client must declare the extension com.example/thing",
			"data":{"requiredCapabilities":{"extensions":{"com.example/thing":{}}}}}}`},
	} {
		require.JSONEq(t, tt.want, p.ask(listenWith(1, tt.declared, tt.filter)), tt.filter)
		p.send(cancelled(1))
		p.ask(modern(2, "tools/list", ""))
	}
	res, _ := exchange(t, "POST", listen(t, srv), listenTo(1, toThing), "Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: subscriptions/listen")
	require.Equal(t, 400, res.StatusCode)
}

// No client gets events of an extension before it is on or after it is off. A legacy client gets
// those of the extensions that were on at its handshake.
func TestNotifyOfExtensionsThatComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		before := dial(t, srv)
		before.initializeWith(declares(thing))
		require.JSONEq(t, acknowledged(1, `{}`), before.ask(listenWith(1, thing, toThing)))
		synctest.Wait()
		server.AddExtension(srv, server.Extension{ID: thing})
		p := dial(t, srv)
		p.initializeWith(declares(thing))
		synctest.Wait()
		require.NoError(t, srv.Notify(thing, happened, nil))
		require.Equal(t, notice(happened, ""), p.recv())
		srv.RemoveExtensions(thing)
		require.EqualError(t, srv.Notify(thing, happened, nil), `server: method "`+happened+`": extension "com.example/thing" was not added`)
		p.silent()
		before.silent()
	})
}

func TestBadNotify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := thingServer(t, server.WithTasks(server.Tasks{}))
		p := dial(t, srv)
		p.initializeWith(declares(thing))
		synctest.Wait()
		for _, name := range []string{"", "a b", "notifications/progress", "notifications/tasks", "tools/list"} {
			require.ErrorContains(t, srv.Notify(thing, name, nil), "method name", name)
		}
		require.ErrorContains(t, srv.Notify(thing, happened, 1), "must encode to a JSON object")
		require.ErrorContains(t, srv.Notify(thing, happened, func() {}), "encode the params of")
		require.ErrorContains(t, srv.Notify(thing, happened, map[string]any{"_meta": map[string]any{}}), "the member _meta is the server's")
		for _, extension := range []string{"", "com.example/other", mcp.ExtensionTasks} {
			require.ErrorContains(t, srv.Notify(extension, happened, nil), "was not added", extension)
		}
		p.silent()
	})
}

// The events that wait for a slow reader are bounded. Later ones are lost for it and counted;
// other clients get all.
func TestNotifyOfASlowReader(t *testing.T) {
	const limit, flood = 40, 500
	for name, subscribe := range map[string]func(p *deafPipe){
		"modern": func(p *deafPipe) { p.send(listenWith(1, thing, toThing)) },
		"legacy": func(p *deafPipe) {
			p.send(legacy(0, "initialize", `"protocolVersion":"2025-11-25","capabilities":{`+declares(thing)+`},"clientInfo":{"name":"c","version":"1"}`))
			p.hear()
			p.send(notice("notifications/initialized", ""))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := thingServer(t, server.WithLimits(server.Limits{MaxPendingUpdates: limit}))
				p := dialDeaf(t, srv)
				subscribe(p)
				if name == "modern" {
					p.hear()
				}
				quick := dial(t, srv)
				quick.initializeWith(declares(thing))
				synctest.Wait()
				for i := range flood {
					require.NoError(t, srv.Notify(thing, happened, map[string]int{"n": i}))
					require.JSONEq(t, notification(happened, fmt.Sprintf(`"n":%d`, i)), quick.recv())
					synctest.Wait()
				}
				lines := p.hear()
				require.Less(t, len(lines), limit+50, "what was queued, and what waited")
				require.GreaterOrEqual(t, len(lines), limit)
				for i, line := range lines {
					require.Contains(t, line, fmt.Sprintf(`"n":%d`, i)+map[string]string{"modern": ",", "legacy": "}"}[name], "nothing is told out of order")
				}
				counters := srv.Core().Snapshot().Counters
				require.EqualValues(t, flood-len(lines), counters.LimitsReached["max_pending_updates"], "each one that was lost is counted")
				require.Empty(t, counters.NotificationsDropped)

				require.NoError(t, srv.Notify(thing, happened, map[string]int{"n": flood}))
				synctest.Wait()
				last := p.hear()
				require.Len(t, last, 1, "it is as good as any other now")
				require.Contains(t, last[0], fmt.Sprintf(`"n":%d`, flood))
			})
		})
	}
}

// Over HTTP a legacy session gets events on its own stream, and a modern client on that of its
// subscription.
func TestNotifyOverHTTP(t *testing.T) {
	srv := thingServer(t)
	url := listen(t, srv)
	res, _ := exchange(t, "POST", url, legacy(1, "initialize",
		`"protocolVersion":"2025-11-25","capabilities":{`+declares(thing)+`},"clientInfo":{"name":"c","version":"1"}`))
	sid := "Mcp-Session-Id: " + res.Header.Get("Mcp-Session-Id")
	exchange(t, "POST", url, notice("notifications/initialized", ""), sid)
	require.NoError(t, srv.Notify(thing, happened, nil))
	require.EqualValues(t, 1, unsent(srv, happened), "without a stream the drop is counted")

	old := openStream(t, "GET", url, "", sid)
	now := openStream(t, "POST", url, listenWith(7, thing, toThing), "Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: subscriptions/listen")
	require.JSONEq(t, acknowledged(7, toThing), now.next())
	for i := range 3 {
		require.NoError(t, srv.Notify(thing, happened, map[string]int{"n": i}))
		require.JSONEq(t, notification(happened, fmt.Sprintf(`"n":%d`, i)), old.next())
		require.JSONEq(t, about(7, happened, fmt.Sprintf(`"n":%d`, i)), now.next())
	}
	exchange(t, "DELETE", url, "", sid)
	old.ends()
	require.Eventually(t, func() bool { return len(srv.Core().Snapshot().Sessions) == 0 }, wait, tick)
	require.NoError(t, srv.Notify(thing, happened, nil))
	require.JSONEq(t, about(7, happened, ""), now.next())
	require.EqualValues(t, 1, unsent(srv, happened), "nobody is told for whom nobody is there")
	conserved(t, srv)
}

// The client of package servertest subscribes to an extension and gets its events.
func TestNotifyOfServertest(t *testing.T) {
	srv := thingServer(t)
	client := servertest.Connect(t, srv, servertest.Extension(thing, nil))
	filter := mcp.SubscriptionFilter{Extensions: map[string]bool{thing: true, "com.example/other": true}}
	s, err := client.Listen(t.Context(), filter)
	require.NoError(t, err)
	require.Equal(t, mcp.SubscriptionFilter{Extensions: map[string]bool{thing: true}}, s.Filter())
	require.NoError(t, srv.Notify(thing, happened, map[string]int{"n": 1}))
	change, err := s.Next(context.Background())
	require.NoError(t, err)
	require.Equal(t, happened, change.Method)
	require.Contains(t, string(change.Params), `"n":1`)
}
