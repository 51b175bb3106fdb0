package server_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// Progress does not extend the deadline of a request.
func TestProgressExtendsNoDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t, server.WithLimits(server.Limits{RequestTimeout: 10 * time.Second}))
		causes := make(chan error, 1)
		server.AddTool(srv, server.Tool{Name: "busy"}, func(ctx context.Context, call *server.Call, _ none) (string, error) {
			for i := 1.0; ctx.Err() == nil; i++ {
				if err := call.Progress(i, 0, ""); err != nil {
					break
				}
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
			}
			causes <- context.Cause(ctx)
			return "late", nil
		})
		p := dial(t, srv)
		begin := time.Now()
		p.send(modern(1, "tools/call", call("busy", `{}`), `"progressToken":"t"`))
		reports := 0
		line := p.recv()
		for ; strings.Contains(line, "notifications/progress"); line = p.recv() {
			reports++
		}
		require.Contains(t, line, `"data":{"reason":"deadline","limit":"request_timeout"}`)
		require.Equal(t, 10*time.Second, time.Since(begin))
		require.GreaterOrEqual(t, reports, 9)
		require.ErrorIs(t, <-causes, mcp.ErrDeadline)
		p.silent()
	})
}
