package server_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server"
)

// The page of changes names the middleware in which calls are for long, and only if it has most of their time.
func TestChangesNameTheSlowMiddleware(t *testing.T) {
	for _, tt := range []struct {
		name              string
		middleware, tool  time.Duration // that they take from some time on
		want, doesNotWant string
	}{
		{"the middleware is slow", 2 * time.Second, 40 * time.Millisecond, "tool x, phase middleware server.quota", "#"},
		{"the handler is slow", 200 * time.Millisecond, 2 * time.Second, "tool x", "phase"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ofMiddleware, ofTool atomic.Int64
				ofTool.Store(int64(40 * time.Millisecond))
				tel, srv := newObserved(t, tracetest.NewSpanRecorder(), server.WithMiddleware(pausing(0, 0), quota(&ofMiddleware)))
				handler := func(ctx context.Context, call *server.Call, in struct{}) (string, error) {
					return sleep(time.Duration(ofTool.Load()))(ctx, call, in)
				}
				server.AddTool(srv, server.Tool{Name: "x"}, handler)
				server.AddTool(srv, server.Tool{Name: "y"}, sleep(40*time.Millisecond))
				p := dial(t, srv)
				calls := func(steps int) {
					for step := range steps {
						begin := time.Now()
						for range 2 {
							require.Contains(t, p.ask(modern(2*step, "tools/call", call("x", `{}`))), "done")
							require.Contains(t, p.ask(modern(2*step+1, "tools/call", call("y", `{}`))), "done")
						}
						time.Sleep(10*time.Second - time.Since(begin))
					}
				}
				calls(60)
				ofMiddleware.Store(int64(tt.middleware))
				ofTool.Store(int64(tt.tool))
				calls(30)
				var page report.Changes
				readPage(t, tel.ChangesHandler(), "/debug/changes", "", &page)
				require.NotEmpty(t, page.Changes)
				require.Contains(t, page.Changes[0].Text, "running time")
				require.Contains(t, page.Changes[0].Text, tt.want)
				require.False(t, strings.Contains(page.Changes[0].Text, tt.doesNotWant), page.Changes[0].Text)
			})
		})
	}
}

// quota returns a middleware that takes its time over the tool x.
func quota(took *atomic.Int64) middleware.Middleware {
	return func(next middleware.Handler) middleware.Handler {
		return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
			if req.Route.Target == "x" {
				time.Sleep(time.Duration(took.Load()))
			}
			return next(ctx, req)
		}
	}
}
