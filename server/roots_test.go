package server_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server"
)

// The hook is called for legacy clients with roots only.
func TestOnRootsChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		var got []string
		for _, name := range []string{"first", "second"} {
			srv.OnRootsChanged(func(_ context.Context, n *server.Notice) { got = append(got, name+" "+n.Method()) })
		}
		const changed = "notifications/roots/list_changed"
		p := dial(t, srv)
		p.send(notification(changed, ""), notification(changed, `"_meta":{`+modernMeta+`}`))
		p.silent()
		require.Empty(t, got, "there is no session yet, and the modern era has no such notification")
		p.initialize("2025-11-25")
		p.send(notification(changed, `"_meta":{`+modernMeta+`}`))
		p.silent()
		require.Empty(t, got)
		p.send(notification(changed, ""))
		p.silent()
		require.Equal(t, []string{"first " + changed, "second " + changed}, got)

		rootless := dial(t, srv)
		rootless.ask(legacy(1, "initialize", `"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"c","version":"1"}`))
		rootless.send(notification(changed, ""))
		rootless.silent()
		require.Len(t, got, 2)
	})
}

// A program that caches roots by session removes those that have changed, and asks again.
func TestRootsChangedOverHTTP(t *testing.T) {
	srv := newServer(t)
	changed := make(chan string, 1)
	srv.OnRootsChanged(func(_ context.Context, n *server.Notice) { changed <- n.SessionID() })
	url := listen(t, srv)
	res, _ := exchange(t, "POST", url, legacy(1, "initialize", `"protocolVersion":"2025-06-18",`+initializeAll))
	id := res.Header.Get("Mcp-Session-Id")
	res, _ = exchange(t, "POST", url, notification("notifications/roots/list_changed", ""), "Mcp-Session-Id: "+id)
	require.Equal(t, 202, res.StatusCode)
	require.Equal(t, id, <-changed)
	require.NoError(t, srv.Shutdown(t.Context()))
}
