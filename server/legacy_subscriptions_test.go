package server_test

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// notice is a notification to a legacy client.
func notice(method, params string) string {
	if params != "" {
		params = `,"params":` + params
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":%q%s}`, method, params)
}

// withURI is a legacy request about a resource.
func withURI(id any, method, uri string) string {
	return legacy(id, method, fmt.Sprintf(`"uri":%q`, uri))
}

// Legacy sessions get changes when their handshake is finished, and updates of the resources
// that they have subscribed to.
func TestLegacySessionsGetChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := changing(t)
		p, modernOnly, unready := dial(t, srv), dial(t, srv), dial(t, srv)
		p.initialize("2025-11-25")
		require.Contains(t, unready.ask(legacy(1, "initialize", `"protocolVersion":"2025-11-25","capabilities":{},`+
			`"clientInfo":{"name":"c","version":"1"}`)), `"resources":{"subscribe":true,"listChanged":true}`)
		modernOnly.ask(modern(1, "tools/list", ""))
		synctest.Wait()

		require.Equal(t, `{"jsonrpc":"2.0","id":2,"result":{}}`, unready.ask(withURI(2, "resources/subscribe", "test://a")))
		server.AddTool(srv, server.Tool{Name: "x"}, text("x"))
		require.Equal(t, notice(toolsChanged, ""), p.recv())
		unready.silent() // until its handshake is finished
		unready.send(notice("notifications/initialized", ""))
		synctest.Wait()
		addPrompt(srv, "x")
		require.Equal(t, notice(promptsChanged, ""), unready.recv())
		require.Equal(t, notice(promptsChanged, ""), p.recv())
		srv.RemoveResources("test://dir")
		require.Equal(t, notice(resourcesChanged, ""), p.recv())
		srv.ResourceUpdated("test://a")
		p.silent()

		require.Equal(t, `{"jsonrpc":"2.0","id":1,"result":{}}`, p.ask(withURI(1, "resources/subscribe", "test://a")))
		require.Equal(t, `{"jsonrpc":"2.0","id":2,"result":{}}`, p.ask(withURI(2, "resources/subscribe", "test://a")))
		require.Equal(t, `{"jsonrpc":"2.0","id":3,"result":{}}`, p.ask(withURI(3, "resources/subscribe", "test://item/1")))
		srv.ResourceUpdated("test://a")
		require.Equal(t, notice("notifications/resources/updated", `{"uri":"test://a"}`), p.recv())
		srv.ResourceUpdated("test://item/1?part=2")
		require.Equal(t, notice("notifications/resources/updated", `{"uri":"test://item/1?part=2"}`), p.recv())
		srv.ResourceUpdated("test://item/10")
		p.silent()

		require.Equal(t, `{"jsonrpc":"2.0","id":4,"result":{}}`, p.ask(withURI(4, "resources/unsubscribe", "test://a")))
		require.Equal(t, `{"jsonrpc":"2.0","id":5,"result":{}}`, p.ask(withURI(5, "resources/unsubscribe", "test://a")))
		srv.ResourceUpdated("test://a")
		p.silent()
		modernOnly.silent()
	})
}

// A subscription to a resource that the client may not read is answered as a read of it.
// TestLivesOfResourceSubscriptions checks how long sessions were subscribed, and by what that has ended.
func TestLivesOfResourceSubscriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := changing(t, server.WithTelemetry(recording(t)))
		p := dial(t, srv)
		p.initialize("2025-11-25")
		for i, uri := range []string{"test://a", "test://item/1", "test://item/1"} {
			require.Contains(t, p.ask(withURI(i, "resources/subscribe", uri)), `"result":{}`)
		}
		time.Sleep(time.Minute)
		for i := range 2 {
			require.Contains(t, p.ask(withURI(i, "resources/unsubscribe", "test://a")), `"result":{}`)
		}
		time.Sleep(time.Minute)
		require.NoError(t, p.hangUp())
		synctest.Wait()
		ended := func(end, what, value string) {
			t.Helper()
			require.Contains(t, metricsOf(srv), `vitrine_resource_subscription_duration_seconds_`+what+`{end="`+end+`"} `+value+"\n")
		}
		ended("unsubscribed", "count", "1")
		ended("unsubscribed", "sum", "60")
		ended("session_ended", "count", "1")
		ended("session_ended", "sum", "120")
		ended("other_replica", "count", "0")
	})
}

func TestSubscribeErrors(t *testing.T) {
	hidden := map[string]bool{}
	srv := changing(t, deny(func(_ *auth.Principal, op *auth.Operation) bool { return hidden[cmp.Or(op.Template, op.URI)] }))
	hidden["test://dir"], hidden["test://item/{id}"] = true, true
	p := dial(t, srv)
	p.initialize("2025-06-18")
	for _, uri := range []string{"test://nowhere", "test://dir", "test://item/1", ""} {
		read := p.ask(withURI(1, "resources/read", uri))
		require.Contains(t, read, `"code":-32002`)
		for _, method := range []string{"resources/subscribe", "resources/unsubscribe"} {
			require.Equal(t, read, p.ask(withURI(1, method, uri)), "%s %q", method, uri)
		}
	}
	for _, method := range []string{"resources/subscribe", "resources/unsubscribe"} {
		for _, params := range []string{``, `"uri":7`} {
			require.JSONEq(t, failure(1, -32602, "params.uri is missing"), p.ask(legacy(1, method, params)))
		}
		require.Contains(t, p.ask(modern(1, method, `"uri":"test://a"`)), `"code":-32601`, "there is none in the modern era")
	}
	require.Contains(t, p.ask(withURI(1, "resources/subscribe", "test://a")), `"result":{}`)
	srv.RemoveResources("test://a")
	require.Equal(t, notice(resourcesChanged, ""), p.recv())
	require.Contains(t, p.ask(withURI(1, "resources/unsubscribe", "test://a")), `"result":{}`, "although it has gone")

	none := dial(t, newServer(t)) // a server without resources
	none.initialize("2025-06-18")
	require.Contains(t, none.ask(withURI(1, "resources/subscribe", "test://a")), `"code":-32601`)
}

// A session does not get changes that its handshake has not announced.
func TestLegacySessionGetsOnlyAnnouncedChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		p := dial(t, srv)
		p.initialize("2024-11-05")
		synctest.Wait()
		addPrompt(srv, "late")
		p.silent()
		server.AddTool(srv, server.Tool{Name: "x"}, text("x"))
		require.Equal(t, notice(toolsChanged, ""), p.recv())
	})
}

// The number of subscriptions to resources is bounded in both eras.
func TestMaxResourceSubscriptions(t *testing.T) {
	srv := changing(t, server.WithLimits(server.Limits{MaxResourceSubscriptions: 2}))
	p := dial(t, srv)
	p.initialize("2025-11-25")
	tooMany := `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,` +
		`"message":"too many resources: max_resource_subscriptions is reached","data":{"limit":"max_resource_subscriptions"}}}`
	for i := range 2 {
		require.Contains(t, p.ask(withURI(1, "resources/subscribe", fmt.Sprint("test://item/", i))), `"result":{}`)
	}
	require.JSONEq(t, tooMany, p.ask(withURI(1, "resources/subscribe", "test://a")))
	require.Contains(t, p.ask(withURI(1, "resources/subscribe", "test://item/1")), `"result":{}`, "it is subscribed to already")
	require.Contains(t, p.ask(withURI(1, "resources/unsubscribe", "test://item/1")), `"result":{}`)
	require.Contains(t, p.ask(withURI(1, "resources/subscribe", "test://a")), `"result":{}`)

	uris := []string{`"test://item/1"`, `"test://item/2"`}
	filter := func() string { return `{"resourceSubscriptions":[` + strings.Join(uris, ",") + `]}` }
	require.JSONEq(t, acknowledged(2, filter()), p.ask(listenTo(2, filter())))
	uris = append(uris, `"test://a"`)
	require.JSONEq(t, tooMany, p.ask(listenTo(1, filter())))
	require.EqualValues(t, 2, srv.Core().Snapshot().Counters.LimitsReached["max_resource_subscriptions"])
}

// What all subscriptions are about has a bound for the process, in both eras.
func TestMaxSubscribedBytes(t *testing.T) {
	srv := changing(t, server.WithLimits(server.Limits{MaxSubscribedBytes: 2000}))
	p := dial(t, srv)
	p.initialize("2025-11-25")
	full := `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"the server is overloaded: max_subscribed_bytes is reached",` +
		`"data":{"reason":"overload","limit":"max_subscribed_bytes"}}}`
	for i := range 3 {
		require.Contains(t, p.ask(withURI(1, "resources/subscribe", fmt.Sprint("test://item/", i))), `"result":{}`)
	}
	require.JSONEq(t, full, p.ask(withURI(1, "resources/subscribe", "test://item/3")))
	require.Contains(t, p.ask(withURI(1, "resources/subscribe", "test://item/2")), `"result":{}`, "it is subscribed to already")
	require.JSONEq(t, full, p.ask(listenTo(1, `{"resourceSubscriptions":["test://item/1"]}`)))
	require.EqualValues(t, 2, srv.Core().Snapshot().Counters.LimitsReached["max_subscribed_bytes"])
	require.Contains(t, p.ask(withURI(1, "resources/unsubscribe", "test://item/0")), `"result":{}`)
	require.JSONEq(t, acknowledged(2, `{"resourceSubscriptions":["test://item/1"]}`), p.ask(listenTo(2, `{"resourceSubscriptions":["test://item/1"]}`)))
}

// Over legacy HTTP the session's stream carries changes. Without one the drop is counted. The
// end of a session ends its subscriptions.
func TestLegacyChangesOverHTTP(t *testing.T) {
	srv := changing(t)
	url := listen(t, srv)
	res, _ := exchange(t, "POST", url, legacy(1, "initialize",
		`"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}`))
	sid := "Mcp-Session-Id: " + res.Header.Get("Mcp-Session-Id")
	exchange(t, "POST", url, notice("notifications/initialized", ""), sid)
	_, body := exchange(t, "POST", url, withURI(2, "resources/subscribe", "test://a"), sid)
	require.Equal(t, `{"jsonrpc":"2.0","id":2,"result":{}}`, body)

	server.AddTool(srv, server.Tool{Name: "x"}, text("x"))
	srv.ResourceUpdated("test://a")
	require.Eventually(t, func() bool {
		return unsent(srv, toolsChanged) == 1 && unsent(srv, "notifications/resources/updated") == 1
	},
		wait, tick)

	s := openStream(t, "GET", url, "", sid)
	srv.RemoveTools("x")
	require.Equal(t, notice(toolsChanged, ""), s.next())
	srv.ResourceUpdated("test://a")
	require.Equal(t, notice("notifications/resources/updated", `{"uri":"test://a"}`), s.next())

	exchange(t, "DELETE", url, "", sid)
	s.ends()
	require.Eventually(t, func() bool { return srv.Joined() == 0 }, wait, tick, "its feed leaves after it has left the table")
	before := unsent(srv, toolsChanged)
	server.AddTool(srv, server.Tool{Name: "x"}, text("x"))
	conserved(t, srv)
	require.Equal(t, before, unsent(srv, toolsChanged), "nobody is told for whom nobody is there")
}

// unsent returns how many notifications could not be sent.
func unsent(srv *server.Server, method string) (n uint64) {
	for d, count := range srv.Core().Snapshot().Counters.NotificationsDropped {
		if d.Method == method && (d.Reason == mcp.DropStreamGone || d.Reason == mcp.DropSessionGone) {
			n += count
		}
	}
	return n
}

// A client's notifications/roots/list_changed is accepted and counted.
func TestRootsListChanged(t *testing.T) {
	srv := newServer(t)
	p := dial(t, srv)
	p.initialize("2025-11-25")
	p.send(notice("notifications/roots/list_changed", ""))
	require.Contains(t, p.ask(legacy(1, "ping", "")), `"result":{}`)
	require.EqualValues(t, 2, srv.Core().Snapshot().Counters.Received["notification"])
}

// On one pipe a legacy session and a modern subscription both get the changes.
func TestChangesOfBothErasOnOnePipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := changing(t)
		p := dial(t, srv)
		p.initialize("2025-11-25")
		p.ask(listenTo(1, `{"toolsListChanged":true}`))
		synctest.Wait()
		server.AddTool(srv, server.Tool{Name: "x"}, text("x"))
		synctest.Wait()
		lines := []string{p.recv(), p.recv()}
		require.Contains(t, lines, notice(toolsChanged, ""))
		require.Contains(t, lines, about(1, toolsChanged, ""))
		p.silent()
	})
}
