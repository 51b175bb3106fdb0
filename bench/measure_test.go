package main

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/bench/servers"
	"github.com/vitrine-mcp/vitrine/internal/needs"
)

// skipElsewhere skips a test on systems that do not tell the CPU time of a process.
func skipElsewhere(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, errors.ErrUnsupported) {
		needs.Skip(t, "benchmarks of processes", err.Error())
	}
}

// none is a scale of nothing.
func none() scale { return scale{only: regexp.MustCompile("^$")} }

func TestProfiles(t *testing.T) {
	dir := t.TempDir()
	p := plan{
		scenarios: matching(regexp.MustCompile(headline + "$")), kinds: compared(regexp.MustCompile("^bare$")),
		scale: none(), rounds: 1, slice: time.Millisecond, profiles: dir, parts: true, seconds: 1, progress: io.Discard,
	}
	got, err := p.run()
	skipElsewhere(t, err)
	require.NoError(t, err)
	for _, name := range []string{"http-call-modern-small-16-floor.cpu.prof", "http-call-modern-small-16-floor.allocs.prof"} {
		profile, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, "\x1f\x8b", string(profile[:2]), "%s is compressed", name)
	}
	require.Nil(t, got.results[0].parts[0].cpu, "only some kinds are divided")
	floor := got.results[0].parts[1]
	require.Positive(t, floor.cpu[partKernel])
	require.Positive(t, floor.cpu["net/http"])
	for _, shares := range []map[string]float64{floor.cpu, floor.allocs} {
		sum := 0.0
		for _, share := range shares {
			sum += share
		}
		require.InDelta(t, 1, sum, 1e-6)
	}
}

// Every server gives the right answers to every kind of load, and has ended afterwards.
func TestEveryServerAnswersEveryLoad(t *testing.T) {
	p := plan{
		scenarios: matching(regexp.MustCompile(`^(http/call/(modern/small|legacy/medium)/1|http/list/modern/10/16|http/progress/.*|stdio/.*/16|memory/.*/16)$`)),
		scale:     none(), kinds: servers.All(), rounds: 1, slice: time.Millisecond, progress: io.Discard,
	}
	require.Len(t, p.scenarios, 6)
	// In so short a time it may happen to sample nothing.
	p.kinds = compared(regexp.MustCompile(`^(bare|vitrine|mcpgo-validating|gosdk)$`))
	got, err := p.run()
	skipElsewhere(t, err)
	require.NoError(t, err)
	for _, r := range got.results {
		for i, samples := range r.samples {
			require.Len(t, samples, 1)
			name := r.scenario.name() + " of " + p.kinds[i].Name
			require.GreaterOrEqual(t, samples[0].requests, r.scenario.callers, name)
			require.Positive(t, samples[0].answer, name)
			require.LessOrEqual(t, samples[0].p50, samples[0].p99, name)
		}
	}
}

func TestWrongAnswersFail(t *testing.T) {
	s := scenario{kind: call, size: small, tools: fewTools, callers: 3}
	for _, tt := range []struct {
		name   string
		answer func(http.ResponseWriter)
		want   string
	}{
		{"status", func(w http.ResponseWriter) { http.Error(w, "overload", http.StatusServiceUnavailable) }, "status 503"},
		{"body", func(w http.ResponseWriter) { io.WriteString(w, `{"id":1,"result":{}}`) }, "has the id 1"},
		{"hangs up", func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, "EOF"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				tt.answer(w)
			}))
			defer srv.Close()
			l, err := newHTTPLoad(s, render(s), srv.Listener.Addr().String())
			require.NoError(t, err)
			defer l.close()
			_, err = l.run(time.Hour)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestWrongLinesFail(t *testing.T) {
	s := scenario{kind: call, size: small, tools: fewTools, callers: 1, stdio: true}
	for _, tt := range []struct{ name, answer, want string }{
		{"end", "", "EOF"},
		{"nobody's", `{"jsonrpc":"2.0","id":100000009,"result":{}}` + "\n", "nobody has asked"},
		{"empty", `{"jsonrpc":"2.0","id":100000001,"result":{}}` + "\n", "does not have the text"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newStdioLoad(s, render(s), pipe{strings.NewReader(tt.answer), io.Discard})
			_, err := l.run(time.Hour)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestMissingServer(t *testing.T) {
	p, err := start(os.Args[0], servers.Kind{Name: "nobody"}, scenario{tools: fewTools}, "")
	require.Nil(t, p)
	require.ErrorContains(t, err, `there is no server "nobody"`)
}

func TestCleanEnv(t *testing.T) {
	require.Equal(t, []string{"PATH=/bin", "GOGC=50"},
		cleanEnv([]string{"PATH=/bin", "OTEL_SDK_DISABLED=true", "VITRINE_ADDR=:1", "GOGC=50"}))
}
