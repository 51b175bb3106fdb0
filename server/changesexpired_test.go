package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// A client leaves while its calls run, and never comes for the answers. When the event store deletes them for the
// next ones, the page names the client, the tool and the limit.
func TestPageOfChangesNamesLostAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, err := telemetry.New()
		require.NoError(t, err)
		srv := newServer(t, server.WithTelemetry(tel), server.WithLimits(server.Limits{MaxEventBytesTotal: 256 << 10}))
		for _, tool := range []string{"report", "order"} {
			server.AddTool(srv, server.Tool{Name: tool}, func(_ context.Context, c *server.Call, _ struct{}) (string, error) {
				if err := c.Progress(1, 2, "begun"); err != nil {
					return "", err
				}
				time.Sleep(100 * time.Millisecond)
				return strings.Repeat("x", 30<<10), nil
			})
		}
		s := &shop{tel: tel, handler: srv.Handler()}
		post := func(ctx context.Context, session, body string) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1:8080/mcp", strings.NewReader(body))
			r.RemoteAddr = "127.0.0.1:5555"
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			if session != "" {
				r.Header.Set("Mcp-Session-Id", session)
			}
			w := httptest.NewRecorder()
			s.handler.ServeHTTP(w, r)
			return w
		}
		var sessions []string
		for _, client := range []string{"desk", "cli"} {
			w := post(t.Context(), "", fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":%q,"version":"4.3.0"}}}`, client))
			require.Equal(t, http.StatusOK, w.Code, w.Body.String())
			sessions = append(sessions, w.Header().Get("Mcp-Session-Id"))
			post(t.Context(), sessions[len(sessions)-1], `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		}
		run := func(length time.Duration, leaves bool) {
			var calls sync.WaitGroup
			for id := range int(length / time.Second) {
				for i, tool := range []string{"report", "order"} {
					calls.Go(func() {
						ctx, leave := context.WithCancel(context.Background())
						defer leave()
						if leaves && tool == "report" {
							time.AfterFunc(50*time.Millisecond, leave)
						}
						post(ctx, sessions[i], legacy(id, "tools/call", call(tool, `{}`)+`,"_meta":{`+withToken+`}`))
					})
				}
				time.Sleep(time.Second)
			}
			calls.Wait()
		}
		run(12*time.Minute, false)
		quiet, _ := s.changed(t, "")
		require.Empty(t, quiet)
		run(4*time.Minute, true)
		texts, _ := s.changed(t, "")
		t.Log(strings.Join(texts, "\n"))
		var lost string
		for _, text := range texts {
			if strings.Contains(text, "expired answers") {
				lost = text
			}
		}
		for _, want := range []string{"desk", "report", "max_event_bytes_total"} {
			require.Contains(t, lost, want)
		}
		require.NotContains(t, lost, "cli 4.3.0")
	})
}
