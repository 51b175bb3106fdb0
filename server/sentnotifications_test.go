package server_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// Notifications that were written are counted by method, and dropped ones are not among them.
func TestSentNotificationsByMethod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		server.AddTool(srv, server.Tool{Name: "work"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
			for i := range 3 {
				if err := call.Progress(float64(i), 3, ""); err != nil {
					return "", err
				}
			}
			return "done", nil
		})
		p := dial(t, srv)
		p.initialize("2025-06-18")
		p.send(legacy(1, "tools/call", `"name":"work","arguments":{},"_meta":{"progressToken":"t"}`))
		for range 4 { // with the answer
			p.recv()
		}
		p.ask(legacy(2, "tools/call", call("work", `{}`))) // nobody asked for progress: it is dropped
		server.AddTool(srv, server.Tool{Name: "more"}, text("more"))
		require.Contains(t, p.recv(), mcp.NotificationToolsListChanged)
		synctest.Wait()
		want := map[string]uint64{mcp.NotificationProgress: 3, mcp.NotificationToolsListChanged: 1}
		require.Equal(t, want, srv.Core().Snapshot().Counters.NotificationsSent)
		var page report.Requests
		readPage(t, srv.Telemetry().RequestsHandler(), "/debug/requests", "", &page)
		require.Equal(t, want, page.Totals.Notified)
	})
}
