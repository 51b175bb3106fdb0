package main

import (
	"io"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/bench/servers"
)

func TestExtras(t *testing.T) {
	require.Equal(t, []string{"promises/modern", "promises/legacy", "protected", "everything", "sessions/delete", "sessions/forever", "collector/gogc", "validation", "release"}, extras(regexp.MustCompile("")))
	p := plan{scale: none(), extras: extras(regexp.MustCompile("^(promises|protected|collector|validation)")), rounds: 2, slice: time.Millisecond, progress: io.Discard}
	got, err := p.run()
	skipElsewhere(t, err)
	require.NoError(t, err)
	require.Len(t, got.collector.samples, 4)
	for _, samples := range got.collector.samples {
		require.Len(t, samples, 2*goalRounds, "the goals are about it")
	}
	require.Len(t, got.promises.samples, len(servers.Promises()))
	require.Len(t, got.promisesLegacy.samples, len(servers.Promises())-1)
	for i, samples := range got.promises.samples {
		require.Len(t, samples, 2*goalRounds, servers.Promises()[i].Name)
	}
	require.Len(t, got.protected.samples, len(servers.Protected()))
	for i, samples := range got.protected.samples {
		require.Len(t, samples, 2*goalRounds, servers.Protected()[i].Name)
	}
	require.Positive(t, got.checking)
	require.Less(t, got.checking, time.Second)
	require.Nil(t, got.release.programs, "it was not asked for")
}

// Each server is measured as it is, and then with fewer runs of the garbage collector and no
// other change.
func TestRelaxedRunsTheCollectorLess(t *testing.T) {
	kinds := servers.Relaxed()
	require.Len(t, kinds, 4)
	for i := 0; i < len(kinds); i += 2 {
		require.Equal(t, kinds[i].Name, kinds[i+1].Name)
		env := []string{"GOGC=1000"}
		if kinds[i].Env != nil {
			env = append(env, kinds[i].Env("")...)
		}
		require.Equal(t, env, kinds[i+1].Env(""))
	}
	require.Equal(t, []string{"OTEL_TRACES_SAMPLER=always_off"}, kinds[2].Env(""))
}

// testCollector is what fewer runs of the collector may give.
func testCollector() result {
	of := func(first, second time.Duration) []sample {
		return []sample{{cpu: first * time.Microsecond}, {cpu: second * time.Microsecond}}
	}
	return result{samples: [][]sample{of(20, 40), of(15, 20), of(30, 30), of(27, 21)}}
}

func TestCollector(t *testing.T) {
	require.Equal(t, "| server | CPU µs | with GOGC=1000 | × |\n|---|---:|---:|---:|\n"+
		"| net/http + encoding/json | 30.0 (20.0–40.0) | 17.5 (15.0–20.0) | 0.62 (0.50–0.75) |\n"+
		"| Vitrine, traces unsampled | 30.0 (30.0–30.0) | 24.0 (21.0–27.0) | 0.80 (0.70–0.90) |\n",
		report{outcome: outcome{collector: testCollector()}}.Collector())
	require.Empty(t, report{}.Collector())
}

// The figures on the page are those of the profile.
func TestPartFigures(t *testing.T) {
	r := testReport()
	for _, got := range []string{r.part("vitrine", "telemetry"), r.share("vitrine", "telemetry"), r.ownParts(), r.validation()} {
		require.Equal(t, unknown, got)
	}
	r.results[0].parts = []parts{{}, {cpu: map[string]float64{"the handler": 0.5, "net/http": 0.5}}, {cpu: map[string]float64{
		partKernel: 0.25, "net/http": 0.25, "internal/session": 0.125, "internal/wire": 0.25, "telemetry": 0.125,
	}}}
	require.Equal(t, "15.0 µs", r.part("floor", "the handler"))
	require.Equal(t, "50 %", r.share("vitrine", partKernel, "net/http"))
	require.Equal(t, "6.0 µs", r.part("vitrine", "internal/wire", "server, middleware"))
	require.Equal(t, "internal/wire 6.0 µs; internal/session 3.0 µs; telemetry 3.0 µs; transport 0.0 µs; server, middleware 0.0 µs", r.ownParts())
	r.checking = 4200 * time.Nanosecond
	require.Equal(t, "4.2 µs", r.validation())
}

func TestPromises(t *testing.T) {
	var r report
	require.Empty(t, r.Promises())
	require.Empty(t, r.PromisesLegacy())
	require.Equal(t, unknown, r.promised("vitrine", servers.Floor))
	for i := range servers.Promises() {
		cpu := time.Duration(10*(i+1)) * time.Microsecond
		r.promises.samples = append(r.promises.samples, []sample{{cpu: cpu, mallocs: float64(i), bytes: 1000 * float64(i)}})
	}
	table := r.Promises()
	require.Contains(t, table, "| bare echo | 10.0 (10.0–10.0) | 0.50 (0.50–0.50) | 0.17 (0.17–0.17) | 1.00 (1.00–1.00) | 0 | 0.0 |\n")
	require.Contains(t, table, "| … and counted, timed, limited, and seen while it lives | 50.0 (50.0–50.0) | 2.50 (2.50–2.50) | 0.83 (0.83–0.83) | 5.00 (5.00–5.00) | 4 | 4.0 |\n")
	require.Contains(t, table, "a share for each caller (another JSON library) | 60.0 (60.0–60.0) | 3.00 (3.00–3.00) | 1.00 (1.00–1.00) | 6.00 (6.00–6.00) | 5 | 5.0 |\n")
	require.Equal(t, "3.00 (3.00–3.00)", r.promised(servers.Promised, servers.Floor))
	require.Equal(t, "4.00 (4.00–4.00)", r.promised("vitrine", servers.Floor))
	require.Equal(t, unknown, r.promised("none", servers.Floor))
	goals := r.Goals()
	require.Contains(t, goals, "| traces unsampled: CPU time, × all promises by hand | ≤ 1 | 1.33 | **missed** |")
	require.Contains(t, goals, "| default: CPU time, × traces unsampled | ≤ 1.05 | 1.12 | **missed** |")
	require.Contains(t, goals, "| default, run by package service: CPU time, × all promises by hand | ≤ 1 | 1.67 | **missed** |")
	r.promisesLegacy.samples = r.promises.samples[:len(r.promises.samples)-1]
	require.Contains(t, r.Goals(), "| legacy: CPU time, × all promises by hand | ≤ 1 | 1.33 | **missed** |")
	require.NotContains(t, r.PromisesLegacy(), "package service")
}

// A protected server is compared with the plain one before it.
func TestProtected(t *testing.T) {
	var r report
	require.Empty(t, r.Protected())
	for i := range servers.Protected() {
		cpu := time.Duration(10*(i+1)) * time.Microsecond
		r.protected.samples = append(r.protected.samples, []sample{{cpu: cpu, mallocs: float64(i), bytes: 1000 * float64(i)}})
	}
	table := r.Protected()
	require.Contains(t, table, "| Vitrine, traces unsampled | 10.0 (10.0–10.0) | 1.00 (1.00–1.00) | 0.0 | 0.0 |\n")
	require.Contains(t, table, "| … and the audit, with a chain, to a file | 40.0 (40.0–40.0) | 4.00 (4.00–4.00) | 3.0 | 3.0 |\n")
	require.Contains(t, r.Goals(), "two rules and the audit: CPU time, × without | ≤ 1.25 | 4.00 | **missed** |")
	require.Contains(t, table, "| Go SDK | 60.0 (60.0–60.0) | 1.00 (1.00–1.00) | 5.0 | 5.0 |\n")
	require.Contains(t, table, "| … with RequireBearerToken, a remembered JWT and a scope | 70.0 (70.0–70.0) | 1.17 (1.17–1.17) | 6.0 | 6.0 |\n")
}

// The default is a server without settings: no variable changes it.
func TestDefaultHasNoSettings(t *testing.T) {
	for _, name := range []string{servers.Default, servers.Service} {
		kind, err := servers.Find(name)
		require.NoError(t, err)
		require.Nil(t, kind.Env, name)
	}
}

// Only goals about a few per cent have more rounds.
func TestCloseGoalsHaveMoreRounds(t *testing.T) {
	p, more := plan{rounds: 2}, 0
	for _, s := range scenarios() {
		if n := p.roundsOf(s); n != p.rounds {
			require.Equal(t, p.rounds*goalRounds, n)
			more++
		}
	}
	require.Equal(t, 2, more, "the call of both eras")
}
