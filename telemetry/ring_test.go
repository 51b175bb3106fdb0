package telemetry

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// TestFloods checks that many requests of one class evict none of another class, that all bounds
// hold, and that evicted traces are counted.
func TestFloods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound = 8
		r := newRig(t, rigConfig{telemetry: []Option{WithRecent(Recent{Traces: bound})}})
		r.tools["fail"] = func(context.Context, *session.Request) (mcp.Result, error) { return nil, errPrivate }
		r.tools["panic"] = func(context.Context, *session.Request) (mcp.Result, error) { panic("boom") }
		r.post(call("panic"), &sink{})
		r.post(call("echo"), &sink{fail: brokenPipe(mcp.DropBrokenPeer)})
		r.post(call("nothing"), &sink{})
		for range 3 { // in different seconds
			time.Sleep(time.Second)
			for range 40 {
				r.post(call("fail"), &sink{})
				r.post(call("echo"), &sink{})
			}
		}
		require.Len(t, r.kept("error"), bound)
		require.Len(t, r.kept("panic"), 1)
		require.Len(t, r.kept("dropped"), 1)
		require.Len(t, r.kept("caller_error"), 1)
		require.LessOrEqual(t, len(r.kept("recent")), 4, "one a second")
		page := fetch[report.Traces](t, r, "/debug/traces")
		require.Equal(t, []string{"error"}, page.Full)
		var text strings.Builder
		page.WriteText(&text)
		require.Regexp(t, `error 8 \(full\), .*; full classes keep the newest \(recent_traces\)\n`, text.String())
		groups := fetch[report.Groups](t, r, "/debug/traces?group=tool")
		require.Equal(t, []string{"error"}, groups.Full)
		require.Empty(t, fetch[report.Groups](t, r, "/debug/traces?group=tool&class=panic").Full)
		text.Reset()
		groups.WriteText(&text)
		require.Regexp(t, `requests: \d+; full classes have only the newest \(recent_traces\): error\n`, text.String())
		families := gather(t, r.tel.Registry())
		require.EqualValues(t, 3*40-bound, value(families, MetricTracesEvicted, "class", "error"))
		require.EqualValues(t, 0, value(families, MetricTracesEvicted, "class", "panic"))
		latest := r.kept("error")[0]
		require.WithinDuration(t, time.Now(), latest.At, time.Second, "the latest second is there")
	})
}

// TestSlowest checks that the slowest requests without errors stay for an hour, however many
// faster ones follow.
func TestSlowest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{})
		took := time.Duration(0)
		r.tools["work"] = func(context.Context, *session.Request) (mcp.Result, error) {
			time.Sleep(took)
			return &mcp.CallToolResult{}, nil
		}
		tookOf := func(class string) (ms []int) {
			for _, row := range r.kept(class) {
				ms = append(ms, int(row.Seconds*1000+0.5))
			}
			return ms
		}
		slowest := func() []int { return tookOf("slow") }
		for _, ms := range []int{5, 4, 3, 2, 70, 1, 90, 4, 80, 60, 1} {
			took = time.Duration(ms) * time.Millisecond
			r.post(call("work"), &sink{})
		}
		require.Empty(t, slowest(), "eleven are too few to compare")
		require.Subset(t, tookOf("recent"), []int{60, 70, 80, 90}, "and yet they are kept")
		took = time.Millisecond
		for range 100 {
			r.post(call("work"), &sink{})
		}
		require.ElementsMatch(t, []int{60, 70, 80, 90}, slowest())
		time.Sleep(slowLife + time.Minute)
		r.post(call("work"), &sink{}) // finds that they are old
		took = 2 * time.Millisecond
		for range enoughToCompare - 1 {
			r.post(call("work"), &sink{})
		}
		require.Empty(t, slowest(), "as of a fresh server")
		r.post(call("work"), &sink{})
		require.Equal(t, []int{2, 2, 2, 2}, slowest())
	})
}

// TestSlowestOfAll checks that the oldest traces are evicted if there are many series. The floor
// of a series that has lost a trace does not fall. Otherwise each next request would evict
// another trace.
func TestSlowestOfAll(t *testing.T) {
	s := newSlowest(6, newInstruments(false).counter(MetricTracesEvicted, classSlow))
	series := make([]recentSeries, 5)
	seq := uint64(0)
	put := func(i int, took time.Duration) *record {
		seq++
		return s.put(&series[i], &record{seq: seq, took: took, ended: time.Now()})
	}
	for i := range series {
		series[i].floor.Store(noFloor)
		put(i, time.Duration(i+10))
	}
	require.Nil(t, put(4, 100))
	require.EqualValues(t, 1, put(4, 101).seq, "the oldest of all")
	require.EqualValues(t, 10, series[0].floor.Load())
	require.Equal(t, 6, s.total)
	require.EqualValues(t, 2, put(4, 102).seq)
	require.EqualValues(t, 14, series[4].floor.Load(), "four of them: the fastest is the floor")
	require.EqualValues(t, 5, put(4, 103).seq, "the fastest of its series")
	require.EqualValues(t, 100, series[4].floor.Load())
	refused := put(4, 99)
	require.EqualValues(t, seq, refused.seq, "it came too late")
	require.Equal(t, 6, s.total)
}

// TestFullRing checks that callers get the same answers without a ring and with a full one.
func TestFullRing(t *testing.T) {
	answers := func(recent Recent) (string, *rig) {
		r := spanning(t, rigConfig{telemetry: []Option{WithRecent(recent)}}, 3)
		r.tools["panic"] = func(context.Context, *session.Request) (mcp.Result, error) { panic("boom") }
		var out transcript
		for i := range 20 {
			for _, tool := range []string{"echo", "work", "fail", "panic", "nothing"} {
				in := call(tool)
				in.ID = mcp.IntID(int64(i))
				r.post(in, &out)
			}
		}
		return out.text.String(), r
	}
	without, _ := answers(Recent{Traces: -1})
	with, full := answers(Recent{Traces: 1, Spans: 1, TotalSpans: 1})
	require.Equal(t, without, with)
	require.Equal(t, 100, strings.Count(with, "\n"))
	families := gather(t, full.tel.Registry())
	require.EqualValues(t, 19, value(families, MetricTracesEvicted, "class", classPanic))
	require.Positive(t, value(families, MetricTraceSpansLeftOut, "limit", limitRecentSpans))
	require.Positive(t, value(families, MetricTraceSpansLeftOut, "limit", limitRecentTotalSpans))
}
