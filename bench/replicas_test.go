package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/bench/servers"
	"github.com/vitrine-mcp/vitrine/internal/needs"
)

// The balancer sends each request of one connection to the next server, with its body and headers.
func TestBalancerSendsRequestsInTurns(t *testing.T) {
	needs.Tool(t, "benchmark of replicas", "nginx")
	var got [3]atomic.Int64
	var addrs []string
	for i := range got {
		ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got[i].Add(1)
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s %s %s", r.Header.Get("Mcp-Session-Id"), r.Host, body)
		}))
		defer ts.Close()
		addrs = append(addrs, ts.Listener.Addr().String())
	}
	b, err := startBalancer(addrs)
	require.NoError(t, err)
	defer func() { require.NoError(t, b.stop()) }()
	c, err := dial(b.addr, 4<<10)
	require.NoError(t, err)
	defer c.close()
	m := message{body: []byte("hello")}
	request, _ := m.http(scenario{legacy: true}, b.addr, "s1")
	const each = 700 // more requests than an nginx without settings serves over one connection
	for range each * len(got) {
		status, err := c.roundTrip(request)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, "s1 "+b.addr+" hello", string(c.body))
	}
	for i := range got {
		require.EqualValues(t, each, got[i].Load(), "server %d", i)
	}
}

// Calls of sessions reach all replicas, and each of them serves those that another one has opened.
func TestReplicasAreMeasured(t *testing.T) {
	needs.Tool(t, "benchmark of replicas", "nginx", "redis-server")
	p := plan{scale: scale{replicas: 2, only: regexp.MustCompile("^scale/replicas/2$")}, rounds: 1, slice: 20 * time.Millisecond, progress: io.Discard}
	got, err := p.run()
	skipElsewhere(t, err)
	require.NoError(t, err)
	require.Len(t, got.scaled.replicas, len(servers.Replicated()))
	for i, k := range servers.Replicated() {
		require.Len(t, got.scaled.replicas[i], 2)
		for _, samples := range got.scaled.replicas[i] {
			require.Len(t, samples, goalRounds, k.Name)
			require.GreaterOrEqual(t, samples[0].requests, callersOfReplicas, k.Name)
		}
	}
}

func TestReplicasReport(t *testing.T) {
	const two, three = "| a call at 2 replicas behind nginx: CPU time of both, × one, ÷ the same for 2 that share nothing | ≤ 1.05 | ",
		"| a call at 3 replicas behind nginx: CPU time of all, × one, ÷ the same for 3 that share nothing | ≤ 1.05 | "
	require.Contains(t, report{}.Goals(), three+"(not measured) |  |")
	of := func(cpu time.Duration) []sample { return []sample{{requests: 1, took: time.Second, cpu: cpu}} }
	r := report{outcome: outcome{scaled: scaleResult{replicas: [][][]sample{
		{of(20_000), of(24_000), of(30_000)}, {of(20_000), of(22_000), of(20_000)}, {of(40_000), of(44_880), of(44_000)},
	}}}}
	require.Contains(t, r.Scale(), "| net/http + encoding/json | 2 | 24.0 (24.0–24.0) | 1.20 (1.20–1.20) |")
	require.Contains(t, r.Scale(), "| Vitrine, modern, nothing shared | 2 | 22.0 (22.0–22.0) | 1.10 (1.10–1.10) |")
	require.Contains(t, r.Scale(), "| Vitrine, traces unsampled | 3 | 44.0 (44.0–44.0) | 1.10 (1.10–1.10) |")
	require.Contains(t, r.Goals(), two+"1.02 | reached |")
	require.Contains(t, r.Goals(), three+"1.10 | **missed** |")
}

// The CPU time and the counters of a fleet are the sums of those of its processes, which only grow.
func TestFleetAddsUp(t *testing.T) {
	kind, err := servers.Find(servers.Bare)
	require.NoError(t, err)
	var f fleet
	for range 2 {
		p, err := start(os.Args[0], kind, scenario{tools: fewTools}, "")
		require.NoError(t, err)
		defer func() { require.NoError(t, p.stop()) }()
		f = append(f, p)
	}
	sums := func() (cpu time.Duration, sum stats) {
		for _, p := range f {
			one, err := p.cpu()
			skipElsewhere(t, err)
			require.NoError(t, err)
			s, err := p.stats()
			require.NoError(t, err)
			cpu, sum = cpu+one, stats{sum.Mallocs + s.Mallocs, sum.Bytes + s.Bytes}
		}
		return cpu, sum
	}
	cpuBefore, before := sums()
	cpu, err := f.cpu()
	require.NoError(t, err)
	got, err := f.stats()
	require.NoError(t, err)
	cpuAfter, after := sums()
	require.GreaterOrEqual(t, cpu, cpuBefore)
	require.LessOrEqual(t, cpu, cpuAfter)
	require.Greater(t, got.Mallocs, before.Mallocs)
	require.Less(t, got.Mallocs, after.Mallocs)
	require.Greater(t, got.Bytes, before.Bytes)
	require.Less(t, got.Bytes, after.Bytes)
}
