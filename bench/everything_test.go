package main

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/bench/servers"
	"github.com/vitrine-mcp/vitrine/internal/needs"
)

// A server with everything on serves calls with the token, and no others. Its rules are asked, and at its end the
// audit has lost nothing and the traces are exported.
func TestEverythingIsOn(t *testing.T) {
	needs.Tool(t, "benchmark with everything on", "redis-server")
	exe, err := os.Executable()
	require.NoError(t, err)
	backends, err := startRedis()
	require.NoError(t, err)
	defer func() { require.NoError(t, backends.stop()) }()
	for _, kind := range servers.Everything() {
		t.Run(kind.Name, func(t *testing.T) {
			sink := newSink()
			defer sink.Close()
			s := matching(regexp.MustCompile("^" + headline + "$"))[0]
			s.backends = backends.addresses
			p, err := start(exe, kind, s, sink.url())
			require.NoError(t, err)
			token, err := p.token()
			require.NoError(t, err)
			on := servers.IsProtected(kind)
			m := render(s)
			ask := func(token string, body []byte) (status int, answer string) {
				m := m
				m.body, m.token = body, token
				request, _ := m.http(s, p.addr, "")
				c, err := dial(p.addr, 64<<10)
				require.NoError(t, err)
				defer c.close()
				status, err = c.roundTrip(request)
				require.NoError(t, err)
				return status, string(c.body)
			}
			for range 50 { // of which some are sampled
				status, answer := ask(token, m.body)
				require.Equal(t, http.StatusOK, status, answer)
				require.NotContains(t, answer, `"error"`)
			}
			status, answer := ask(token[:len(token)-8]+"AAAAAAAA", m.body)
			require.Equal(t, on, status == http.StatusUnauthorized, answer)
			_, answer = ask(token, bytes.Replace(m.body, []byte(`"text":"xxxxx`), []byte(`"text":"sudo `), 1))
			require.Equal(t, on, bytes.Contains([]byte(answer), []byte(`"error"`)), answer)
			require.NoError(t, p.stop())
			require.Equal(t, on, sink.exports.Load() > 0)
		})
	}
}

// The table has Vitrine with everything on beside its peers, and the goals are about both.
func TestEverythingReport(t *testing.T) {
	var r report
	require.Empty(t, r.Everything())
	require.Contains(t, r.Goals(), "| everything on: CPU time, × net/http + encoding/json, same bytes | ≤ 1.6 | (not measured) |  |")
	for i := range servers.Everything() {
		r.everything.samples = append(r.everything.samples, []sample{{requests: 1, took: time.Second, cpu: time.Duration(10*(i+1)) * time.Microsecond}})
	}
	table := r.Everything()
	require.Contains(t, table, "| net/http + encoding/json | 10.0 (10.0–10.0) | 1.00 (1.00–1.00) | 0.33 (0.33–0.33) |")
	require.Contains(t, table, "| Vitrine, everything on | 30.0 (30.0–30.0) | 3.00 (3.00–3.00) | 1.00 (1.00–1.00) |")
	require.Contains(t, table, "| mcp-go with validation | 50.0 (50.0–50.0) | 5.00 (5.00–5.00) | 1.67 (1.67–1.67) |")
	require.Contains(t, r.Goals(), "| everything on: CPU time, × net/http + encoding/json, same bytes | ≤ 1.6 | 3.00 | **missed** |")
	require.Contains(t, r.Goals(), "| CPU time of mcp-go with validation, × Vitrine with everything on | ≥ 2.5 | 1.67 | **missed** |")
}

// The run measures all of them, with a token, in as many rounds as a goal has.
func TestEverythingIsMeasured(t *testing.T) {
	needs.Tool(t, "benchmark with everything on", "redis-server")
	p := plan{scale: none(), extras: extras(regexp.MustCompile("^everything")), rounds: 1, slice: 20 * time.Millisecond, progress: io.Discard}
	got, err := p.run()
	skipElsewhere(t, err)
	require.NoError(t, err)
	require.True(t, got.everything.scenario.token)
	require.Len(t, got.everything.samples, len(servers.Everything()))
	for i, samples := range got.everything.samples {
		require.Len(t, samples, goalRounds, servers.Everything()[i].Name)
	}
}
