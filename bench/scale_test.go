package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/bench/servers"
)

func TestScale(t *testing.T) {
	p := plan{
		scale:  scale{streams: 120, calls: 110, sessions: 400, only: regexp.MustCompile("^scale/(streams|calls|sessions)")},
		rounds: 2, slice: time.Millisecond, progress: io.Discard,
	}
	require.Equal(t, []string{"scale/streams/120", "scale/calls/110", "scale/sessions/400"}, p.scale.names())
	got, err := p.run()
	skipElsewhere(t, err)
	require.NoError(t, err)
	require.Empty(t, got.results)
	r := got.scaled
	for i, k := range servers.Scaled() {
		for j, n := range []int{100, 120} {
			g := r.streams[i].growth[j]
			require.Equal(t, n, g.n)
			require.GreaterOrEqual(t, g.each.Goroutines, 1.0, k.Name)
			require.Positive(t, g.each.Heap, k.Name)
			require.Len(t, r.streams[i].notices[j], 2)
			require.Equal(t, n, r.streams[i].notices[j][1].listeners)
		}
		for j, n := range []int{100, 110} {
			g := r.calls[i][j]
			require.Equal(t, n, g.n)
			require.GreaterOrEqual(t, g.each.Goroutines, 1.0, k.Name)
			require.InDelta(t, 1, g.each.Waiting, 0.001, k.Name)
		}
	}
	require.Equal(t, []company{{sessions: 16}, {sessions: 400}, {400, 120}}, r.beside)
	require.Len(t, r.session, 1)
	require.Equal(t, 400, r.session[0].n)
	require.Positive(t, r.session.last().Heap)
	require.Less(t, r.session.last().Goroutines, 1.0)
	for _, samples := range r.cost {
		require.Len(t, samples, 2*goalRounds)
	}
}

func TestSizes(t *testing.T) {
	for _, tt := range []struct {
		first, n int
		want     []int
	}{
		{100, 10_000, []int{100, 1000, 10_000}},
		{100, 5000, []int{100, 1000, 5000}},
		{1000, 100_000, []int{1000, 10_000, 100_000}},
		{100, 100, []int{100}},
		{100, 7, []int{7}},
	} {
		require.Equal(t, tt.want, sizes(tt.first, tt.n))
	}
}

// If one of many connections is refused, the run fails and leaves no connection open.
func TestRefusedConnectionFailsTheCrowd(t *testing.T) {
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		http.Error(w, "full", http.StatusServiceUnavailable)
	}))
	defer ts.Close()
	addr := ts.Listener.Addr().String()
	_, err := open(addr, listening(addr), 3, func(*conn) error { return nil })
	require.ErrorContains(t, err, "status 503")
	_, err = openSessions(addr, 3)
	require.ErrorContains(t, err, "status 503")
}

// Every stream is notified once. The time is that of the last one.
func TestEveryStreamIsNotifiedOnce(t *testing.T) {
	const wait = 50 * time.Millisecond
	told := make(chan struct{})
	var n atomic.Int64
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		last := n.Add(1) == 3 // one comes after the other
		fmt.Fprintf(w, "data: hello\n\n")
		http.NewResponseController(w).Flush()
		<-told
		if last {
			time.Sleep(wait)
		}
		fmt.Fprintf(w, ": alive\n\ndata: news\n\n")
	}))
	defer ts.Close()
	addr := ts.Listener.Addr().String()
	var all crowd
	for range 3 {
		c, err := open(addr, listening(addr), 1, func(c *conn) error { return c.waitFor("hello") })
		require.NoError(t, err)
		all = append(all, c...)
	}
	defer all.close()
	took, err := all.awaitAll("news", func() error { close(told); return nil })
	require.NoError(t, err)
	require.GreaterOrEqual(t, took, wait)
}

func TestParseStatus(t *testing.T) {
	status := []byte("Name:\tx\nVmHWM:\t  99 kB\nVmRSS:\t    1234 kB\nRssFile:\t 1000 kB\nThreads:\t1\n")
	for key, want := range map[string]float64{"VmRSS": 1234 * 1024, "RssFile": 1000 * 1024} {
		got, err := parseStatus(status, key)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, bad := range []string{"", "VmRSS:\tmuch kB\n"} {
		_, err := parseStatus([]byte(bad), "VmRSS")
		require.Error(t, err, bad)
	}
}

func TestMinus(t *testing.T) {
	with := footprint{Heap: 1200, Stacks: 400, Goroutines: 13, Waiting: 10, resident: 5000}
	without := footprint{Heap: 200, Stacks: 100, Goroutines: 3, resident: 1000}
	require.Equal(t, footprint{Heap: 100, Stacks: 30, Goroutines: 1, Waiting: 1, resident: 400}, with.minus(without, 10))
}

func TestThousands(t *testing.T) {
	for n, want := range map[int]string{1: "1", 1000: "1000", 10_000: "10 000", 100_007: "100 007"} {
		require.Equal(t, want, thousands(n))
	}
}

// testScale is what a scale may have given.
func testScale() scaleResult {
	at := func(n int, kB float64) grown {
		return grown{n, footprint{Heap: 1000 * kB, Stacks: 2000, Goroutines: 2, resident: 2000 * kB}}
	}
	streams := func(kB float64, cpu time.Duration) streamsResult {
		rounds := func(n int, cpu time.Duration) []notice {
			return []notice{{n, 40 * time.Millisecond, cpu}, {n, 60 * time.Millisecond, cpu}}
		}
		return streamsResult{growth{at(1000, kB+1), at(10_000, kB)}, [][]notice{rounds(1000, time.Millisecond+cpu/20), rounds(10_000, cpu)}}
	}
	calls := func(kB float64) growth { return growth{at(100, 2*kB), at(1000, kB)} }
	cost := func(cpu time.Duration) []sample { return []sample{{requests: 1, took: 1, cpu: cpu}} }
	return scaleResult{
		scale: scale{streams: 10_000, calls: 1000, sessions: 100_000}, kinds: servers.Scaled(),
		streams: []streamsResult{streams(10, 20*time.Millisecond), streams(13, 30*time.Millisecond), streams(14, 50*time.Millisecond)},
		calls:   []growth{calls(5), calls(9), calls(9)},
		session: growth{
			{1000, footprint{Heap: 2400, Stacks: 300, resident: 4000}},
			{100_000, footprint{Heap: 2000, Stacks: 250, resident: 3000}},
		},
		beside: []company{{sessions: 16}, {sessions: 1000}, {sessions: 100_000}, {100_000, 10_000}},
		cost:   [][]sample{cost(40_000), cost(40_000), cost(42_000), cost(41_200)},
	}
}

func TestScaleTables(t *testing.T) {
	page := report{outcome: outcome{scaled: testScale()}}.Scale()
	for _, want := range []string{
		"### Open streams over HTTP, modern\n",
		"| net/http | 1000 | 11.0 KB | 2.0 KB | 13.0 KB | 0.0 KB | 22.0 KB | 0.0 KB | 2.00 | 13.0 MB |\n",
		"| net/http | 10 000 | 10.0 KB | 2.0 KB | 12.0 KB | 0.0 KB | 20.0 KB | 0.0 KB | 2.00 | 120.0 MB |\n",
		"| Vitrine, traces unsampled | 10 000 | 13.0 KB | 2.0 KB | 15.0 KB | 3.0 KB | 26.0 KB | 6.0 KB | 2.00 | 150.0 MB |\n",
		"| Vitrine, traces unsampled | 1000 | 50.0 (40.0–60.0) ms | 2.5 (2.5–2.5) ms | 1.25 | 2.5 µs |\n",
		"| Vitrine, traces unsampled | 10 000 | 50.0 (40.0–60.0) ms | 30.0 (30.0–30.0) ms | 1.50 | 3.0 µs |\n",
		"### Calls in flight over HTTP, modern\n",
		"| Vitrine, traces unsampled | 100 | 18.0 KB | 2.0 KB | 20.0 KB | 8.0 KB |",
		"| Vitrine, traces unsampled | 1000 | 9.0 KB | 2.0 KB | 11.0 KB | 4.0 KB |",
		"### Idle sessions over HTTP, legacy\n",
		"| 1000 | 2.4 KB | 0.3 KB | 2.7 KB | 4.0 KB | 0.00 | 2.7 MB |\n",
		"| 100 000 | 2.0 KB | 0.2 KB | 2.2 KB | 3.0 KB | 0.00 | 225.0 MB |\n",
		"| 100 000 | 0 | 42.0 (42.0–42.0) | 1.05 (1.05–1.05) |",
		"| 100 000 | 10 000 | 41.2 (41.2–41.2) | 1.03 (1.03–1.03) |",
	} {
		require.Contains(t, page, want)
	}
	for table := range strings.SplitSeq(page, "\n\n") {
		if strings.HasPrefix(table, "|") {
			lines := strings.Split(strings.TrimSpace(table), "\n")
			for _, line := range lines {
				require.Equal(t, strings.Count(lines[0], "|"), strings.Count(line, "|"), line)
			}
		}
	}
	require.Empty(t, report{}.Scale())
}

func TestShuffle(t *testing.T) {
	var made, ids []string
	for i := range 100 {
		made = append(made, fmt.Sprint(i))
	}
	ids = slices.Clone(made)
	shuffle(ids)
	require.ElementsMatch(t, made, ids)
	require.NotEqual(t, made, ids)
}

// Every session is called, by callers that share nothing.
func TestEverySessionIsCalled(t *testing.T) {
	srv, err := servers.All()[1].New(fewTools)
	require.NoError(t, err)
	var mu sync.Mutex
	called, ids := map[string]int{}, map[string]int{}
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		mu.Lock()
		called[r.Header.Get("Mcp-Session-Id")]++
		ids[string(servers.ID(body))]++
		mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		srv.Legacy.ServeHTTP(w, r)
	}))
	defer ts.Close()
	s := scenario{kind: call, legacy: true, size: small, tools: fewTools, callers: 2}
	l, err := newSessionsLoad(s, ts.Listener.Addr().String(), []string{"one", "two", "six", "ten"})
	require.NoError(t, err)
	defer l.close()
	for range 4 {
		_, err := l.run(0)
		require.NoError(t, err)
	}
	require.Equal(t, map[string]int{"one": 2, "two": 2, "six": 2, "ten": 2}, called)
	require.Len(t, ids, 8)
}
