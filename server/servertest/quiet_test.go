package servertest_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
)

// A test may end with an open subscription and a running handler. Neither logs a warning.
func TestNormalEndLogsNoWarning(t *testing.T) {
	for name, opts := range eras {
		for end, close := range map[string]func(*testing.T, *server.Server, *servertest.Client){
			"close": func(t *testing.T, _ *server.Server, c *servertest.Client) { require.NoError(t, c.Close()) },
			"shutdown": func(t *testing.T, s *server.Server, _ *servertest.Client) {
				require.NoError(t, s.Shutdown(t.Context()))
			},
		} {
			t.Run(name+" "+end, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					rec := servertest.Record(t)
					srv := server.New("test", "1", rec)
					server.AddTool(srv, server.Tool{Name: "wait"}, func(ctx context.Context, c *server.Call, _ none) (string, error) {
						<-ctx.Done()
						return "", ctx.Err()
					})
					server.AddStaticResource(srv, server.Resource{Name: "r", URI: "x:y"}, "text")
					client := servertest.Connect(t, srv, opts...)
					_, err := client.ReadResource(t.Context(), "x:y")
					require.NoError(t, err)
					switch name {
					case "modern":
						_, err = client.Listen(t.Context(), mcp.SubscriptionFilter{ResourceSubscriptions: []string{"x:y"}})
					default:
						_, err = client.Call(t.Context(), mcp.MethodResourcesSubscribe, map[string]string{"uri": "x:y"})
					}
					require.NoError(t, err)
					if end == "close" { // a shutdown waits for handlers
						go func() { _, _ = client.CallTool(t.Context(), "wait", nil) }()
						synctest.Wait()
					}
					close(t, srv, client)
					synctest.Wait()
					require.Empty(t, rec.Logs(slog.LevelWarn))
				})
			})
		}
	}
}
