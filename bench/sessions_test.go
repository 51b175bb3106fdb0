package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/bench/servers"
	"github.com/vitrine-mcp/vitrine/internal/needs"
)

// Every shop gives each user the right answers, in a session of its own.
func TestShopsServeSessions(t *testing.T) {
	needs.Tool(t, "benchmark of sessions", "redis-server")
	exe, err := os.Executable()
	require.NoError(t, err)
	backends, err := startBackends(exe)
	require.NoError(t, err)
	defer func() { require.NoError(t, backends.stop()) }()
	for _, kind := range servers.Shops() {
		t.Run(kind.Name, func(t *testing.T) {
			s := scenario{kind: session, legacy: true, callers: 3, backends: backends.addresses}
			p, err := start(exe, kind, s, "")
			require.NoError(t, err)
			defer func() { require.NoError(t, p.stop()) }()
			l, err := newSessionLoad(s, p.addr)
			require.NoError(t, err)
			defer l.close()
			l.more = 4 * s.callers // each of the requests once
			took, err := l.run(time.Millisecond)
			require.NoError(t, err)
			require.GreaterOrEqual(t, len(took), 2*4*s.callers)
		})
	}
}

// A server that forgets the session, answers something else or does not know DELETE fails the run.
func TestSessionLoadNoticesWrongAnswers(t *testing.T) {
	for name, tt := range map[string]struct {
		session, answer string
		deleted         int
		want            string
	}{
		"no session":     {"", `{"serverInfo":{},"status":"confirmed"}`, 200, "no session"},
		"no server info": {"s", `{"status":"confirmed"}`, 200, "serverInfo"},
		"wrong answer":   {"s", `{"serverInfo":{}}`, 200, "does not have"},
		"an error":       {"s", `{"serverInfo":{},"user":"user-000","isError":true}`, 200, "isError"},
		"no DELETE":      {"s", `{"serverInfo":{},"user":"user-000"}`, 405, "DELETE: status 405"},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if r.Method == http.MethodDelete {
					w.WriteHeader(tt.deleted)
					return
				}
				if strings.Contains(string(body), `"initialize"`) && tt.session != "" {
					w.Header().Set("Mcp-Session-Id", tt.session)
				}
				_, _ = io.WriteString(w, tt.answer)
			}))
			defer srv.Close()
			l, err := newSessionLoad(scenario{kind: session, callers: 1}, srv.Listener.Addr().String())
			require.NoError(t, err)
			defer l.close()
			_, err = l.run(time.Millisecond)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

// testSessions is what the shops may have given.
func testSessions() map[string]result {
	r := result{samples: make([][]sample, len(servers.Shops()))}
	for i := range r.samples {
		r.samples[i] = []sample{{requests: 1, took: time.Second, cpu: time.Duration(i+1) * 100 * time.Microsecond}}
	}
	return map[string]result{extraSessionsForever: r}
}

// The tables compare each shop with those by hand and with that of mcp-go.
func TestSessionsReport(t *testing.T) {
	text := report{outcome: outcome{sessions: testSessions()}}.Sessions()
	require.Contains(t, text, "### No client ends a session")
	require.NotContains(t, text, "DELETE")
	require.Contains(t, text, "| Vitrine, default, run by package service | 500 (500–500) | 5.00 (5.00–5.00) | 2.50 (2.50–2.50) | 0.83 (0.83–0.83) |")
	require.Empty(t, report{}.Sessions())
	goals := report{outcome: outcome{sessions: testSessions()}}.Goals()
	require.Contains(t, goals, "| a session for each call, ended by DELETE, run by package service: CPU time, × all promises by hand | ≤ 1.2 | (not measured) |  |\n")
	require.Contains(t, goals, "| a session for each call, never ended, run by package service: CPU time, × all promises by hand | ≤ 1.2 | 2.50 | **missed** |\n| … × mcp-go | ≤ 0.75 | 0.83 | **missed** |\n")
}
