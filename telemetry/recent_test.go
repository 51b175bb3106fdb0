package telemetry

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// tracesMux serves the traces as the admin listener does.
func tracesMux(t *Telemetry) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/debug/traces", t.TracesHandler())
	mux.Handle("/debug/traces/{id}", t.TracesHandler())
	return mux
}

// fetch reads a page as JSON.
func fetch[T any](t *testing.T, r *rig, path string) (page T) {
	t.Helper()
	rec := httptest.NewRecorder()
	tracesMux(r.tel).ServeHTTP(rec, httptest.NewRequest("GET", path, nil))
	require.Equal(t, 200, rec.Code, rec.Body)
	require.Equal(t, "application/json", rec.Header().Get("Content-Type"))
	require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &page))
	return page
}

func (r *rig) kept(class string) []report.Trace {
	return fetch[report.Traces](r.t, r, "/debug/traces?limit=1000&class="+class).Traces
}

// cancelOf cancels the request with the id of call.
func cancelOf(id int64, reason string) *session.Inbound {
	return &session.Inbound{Conn: pipeConn, Envelope: wire.Envelope{
		Kind: wire.Notification, Method: mcp.NotificationCancelled,
		Cancel: &wire.Cancel{HasRequestID: true, RequestID: mcp.IntID(id), RequestIDOK: true, Reason: reason},
	}}
}

// TestClasses: each way to end has its class, and its facts.
func TestClasses(t *testing.T) {
	boom := func(context.Context, *session.Request) (mcp.Result, error) { panic("boom") }
	fails := func(err error) session.Handle {
		return func(context.Context, *session.Request) (mcp.Result, error) { return nil, err }
	}
	for name, c := range map[string]struct {
		handle session.Handle
		tool   string
		fail   error
		want   report.Trace
	}{
		"success": {want: report.Trace{Class: "recent", Outcome: "sent"}},
		"panic": {handle: boom, want: report.Trace{
			Class: "panic", Outcome: "sent", ErrorType: "-32603", ErrorCode: -32603, ErrorMessage: "internal error", Panic: "boom",
		}},
		"error": {handle: fails(errPrivate), want: report.Trace{
			Class: "error", Outcome: "sent", ErrorType: "-32603", ErrorCode: -32603, ErrorMessage: "internal error",
		}},
		"caller's error": {handle: fails(mcp.NewError(mcp.CodeInvalidParams, "no \x1b[2J")), want: report.Trace{
			Class: "caller_error", Outcome: "sent", ErrorCode: -32602, ErrorMessage: "no \ufffd[2J",
		}},
		"tool error": {
			handle: func(_ context.Context, r *session.Request) (mcp.Result, error) {
				result := &mcp.CallToolResult{IsError: true}
				TestBridge.Result(r, result)
				return result, nil
			},
			want: report.Trace{Class: "error", Outcome: "sent", ErrorType: "tool_error", ToolError: true},
		},
		"rejected arguments": {
			handle: func(_ context.Context, r *session.Request) (mcp.Result, error) {
				TestBridge.ArgumentsRejected(r, "/n: must be an \x1b[2Jinteger")
				result := &mcp.CallToolResult{IsError: true}
				TestBridge.Result(r, result)
				return result, nil
			},
			want: report.Trace{
				Class: "error", Outcome: "sent", ErrorType: "tool_error", ToolError: true,
				ArgumentFaults: "/n: must be an \ufffd[2Jinteger",
			},
		},
		"drop": {fail: brokenPipe(mcp.DropWriteTimeout), want: report.Trace{
			Class: "dropped", Outcome: "dropped", DropReason: "write_timeout", ErrorType: "write_timeout",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, rigConfig{})
			if c.handle != nil {
				r.tools["echo"] = c.handle
			}
			r.post(call("echo"), &sink{fail: c.fail})
			rows := r.kept("")
			require.Len(t, rows, 1)
			row := rows[0]
			require.Len(t, row.TraceID, 32)
			require.Len(t, row.SpanID, 16)
			require.NotEmpty(t, row.Phases)
			require.Positive(t, row.Seconds)
			require.WithinDuration(t, time.Now(), row.At, time.Minute)
			if c.fail == nil {
				require.Positive(t, row.AnswerBytes)
			}
			row.TraceID, row.SpanID, row.Phases, row.Seconds, row.At, row.AnswerBytes = "", "", nil, 0, time.Time{}, 0
			c.want.ID, c.want.Method, c.want.Tool, c.want.RequestID, c.want.RequestBytes = "1", "tools/call", "echo", "7", 321
			c.want.Client, c.want.ClientVersion, c.want.ProtocolVersion = "tester", "1.2", "2026-07-28"
			c.want.Transport, c.want.Remote, c.want.Sampled = "http", "192.0.2.7:4711", true
			require.Equal(t, c.want, row)
		})
	}
}

// TestCancelledAndAbandoned: the cause, the caller's reason and the time are kept, and that
// a handler did not stop.
func TestCancelledAndAbandoned(t *testing.T) {
	for _, stubborn := range []bool{false, true} {
		t.Run(fmt.Sprint("stubborn ", stubborn), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, rigConfig{limits: session.Limits{AbandonGrace: 2 * time.Second}})
				held := make(chan struct{})
				r.tools["hang"] = func(ctx context.Context, _ *session.Request) (mcp.Result, error) {
					<-ctx.Done()
					if stubborn {
						<-held
					}
					return nil, context.Cause(ctx)
				}
				s := r.core.Connect(pipeConn, &sink{})
				in := call("hang")
				in.Conn = pipeConn
				s.Receive(in)
				time.Sleep(300 * time.Millisecond)
				s.Receive(cancelOf(7, "bored\x07"))
				time.Sleep(5 * time.Second)
				rows := r.kept("")
				require.Len(t, rows, 1)
				row := rows[0]
				require.Equal(t, map[bool]string{false: "cancelled", true: "abandoned"}[stubborn], row.Class)
				require.Equal(t, stubborn, row.Abandoned)
				require.Equal(t, "client_cancel", row.CancelCause)
				require.Equal(t, "bored\ufffd", row.CancelDetail)
				require.InDelta(t, 0.3, row.CancelledAfterSeconds, 0.001)
				require.Equal(t, "dropped", row.Outcome)
				require.Equal(t, "cancelled", row.DropReason)
				require.Equal(t, "stdio", row.Session)
				require.Equal(t, []string{"queued", "running"}, phaseNames(row.Phases), "there is no answer to write")
				close(held)
				s.Finish(mcp.CauseTransportClose)
				r.rest()
				require.Len(t, r.kept(""), 1, "a late return is no second request")
			})
		})
	}
}

func phaseNames(phases []report.Phase) (names []string) {
	for _, p := range phases {
		names = append(names, p.Phase)
	}
	return names
}

// TestPhases: the waiting, the running, the waiting for the client within it, and the
// writing, each with its time.
func TestPhases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{limits: session.Limits{MaxInFlight: 1}})
		r.tools["first"] = func(context.Context, *session.Request) (mcp.Result, error) {
			time.Sleep(100 * time.Millisecond)
			return &mcp.CallToolResult{}, nil
		}
		r.tools["ask"] = func(ctx context.Context, q *session.Request) (mcp.Result, error) {
			time.Sleep(10 * time.Millisecond)
			short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
			defer cancel()
			_, _ = q.Ask(short, "roots/list", []byte("{}"))
			time.Sleep(10 * time.Millisecond)
			return &mcp.CallToolResult{}, nil
		}
		out := &sink{}
		s := r.core.Connect(pipeConn, out)
		s.Initialize(&session.Peer{Version: mcp.LatestLegacyVersion})
		for i, tool := range []string{"first", "ask"} {
			in := call(tool)
			in.Era, in.Version, in.Conn, in.ID = mcp.Legacy, "", pipeConn, mcp.IntID(int64(i))
			s.Receive(in)
		}
		time.Sleep(time.Second)
		for _, row := range r.kept("") {
			if row.Tool != "ask" {
				continue
			}
			require.Equal(t, []string{"queued", "running", "blocked", "writing"}, phaseNames(row.Phases))
			for i, want := range []struct{ after, took float64 }{{0, 0.1}, {0.1, 0.22}, {0.1, 0.2}, {0.32, 0}} {
				require.InDelta(t, want.after, row.Phases[i].AfterSeconds, 0.001, row.Phases[i].Phase)
				require.InDelta(t, want.took, row.Phases[i].Seconds, 0.001, row.Phases[i].Phase)
			}
		}
		s.Finish(mcp.CauseTransportClose)
		<-s.Done()
	})
}

// TestFloods: a flood of one class takes no place of another, nothing grows beyond its
// bound, and what goes is counted.
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
		families := gather(t, r.tel.Registry())
		require.EqualValues(t, 3*40-bound, value(families, MetricTracesEvicted, "class", "error"))
		require.EqualValues(t, 0, value(families, MetricTracesEvicted, "class", "panic"))
		latest := r.kept("error")[0]
		require.WithinDuration(t, time.Now(), latest.At, time.Second, "the latest second is there")
	})
}

// TestSlowest: of the ordinary requests the slowest are kept, however many faster ones
// follow, and for an hour.
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

// TestSlowestOfAll: with many series the oldest of all go, and the floor of a series that
// has lost one does not fall, or each next request would displace another.
func TestSlowestOfAll(t *testing.T) {
	h := newInstruments(false).health
	s := newSlowest(6, h.evicted.WithLabelValues(classSlow))
	series := make([]recentSeries, 5)
	seq := uint64(0)
	put := func(i int, took time.Duration) *keptTrace {
		seq++
		return s.put(&series[i], &keptTrace{seq: seq, took: took, ended: time.Now()})
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

// TestTracesQuery: the newest first, by class, by method, so many.
func TestTracesQuery(t *testing.T) {
	r := newRig(t, rigConfig{})
	r.tools["fail"] = func(context.Context, *session.Request) (mcp.Result, error) { return nil, errPrivate }
	for range 3 {
		r.post(call("fail"), &sink{})
	}
	r.post(call("echo"), &sink{})
	in := call("")
	in.Method = "no/such"
	r.post(in, &sink{})
	all := fetch[report.Traces](t, r, "/debug/traces")
	require.Len(t, all.Traces, 5)
	require.Equal(t, "5", all.Traces[0].ID)
	require.Equal(t, 3, all.Kept["error"])
	require.Len(t, fetch[report.Traces](t, r, "/debug/traces?class=error&limit=2").Traces, 2)
	require.Len(t, fetch[report.Traces](t, r, "/debug/traces?method=no/such").Traces, 1)
	require.Equal(t, "fail", fetch[report.TraceDetail](t, r, "/debug/traces/1").Tool)
	byTrace := fetch[report.TraceDetail](t, r, "/debug/traces/"+all.Traces[0].TraceID)
	require.Equal(t, "5", byTrace.ID)
	for path, want := range map[string]int{
		"/debug/traces?class=none": 400, "/debug/traces?limit=0": 400, "/debug/traces?limit=x": 400, "/debug/traces/99": 404,
	} {
		rec := httptest.NewRecorder()
		tracesMux(r.tel).ServeHTTP(rec, httptest.NewRequest("GET", path, nil))
		require.Equal(t, want, rec.Code, path)
	}
	rec := httptest.NewRecorder()
	tracesMux(r.tel).ServeHTTP(rec, httptest.NewRequest("POST", "/debug/traces", nil))
	require.Equal(t, 405, rec.Code)
}

func TestTracesText(t *testing.T) {
	r := newRig(t, rigConfig{})
	r.tools["fail"] = func(ctx context.Context, _ *session.Request) (mcp.Result, error) {
		_, span := r.tel.provider.Tracer("user").Start(ctx, "query")
		span.End()
		return nil, errPrivate
	}
	r.post(call("fail"), &sink{})
	read := func(path string) string {
		rec := httptest.NewRecorder()
		tracesMux(r.tel).ServeHTTP(rec, httptest.NewRequest("GET", path+"?format=text", nil))
		require.Equal(t, "text/plain; charset=utf-8", rec.Header().Get("Content-Type"))
		return rec.Body.String()
	}
	require.Regexp(t, `(?m)^1 +\S+ +\S+ +error +sent +tools/call +fail +7 +tester +-32603 internal error +[0-9a-f]{32}$`, read("/debug/traces"))
	text := read("/debug/traces/1")
	require.Regexp(t, `(?m)^client +tester 1.2$`, text)
	require.Regexp(t, `(?m)^running +\S+ +\S+ +=+$`, text)
	require.Regexp(t, `(?m)^query +\S+ +\S+ +=+$`, text)
}

// TestNothingIsKept: what is switched off keeps nothing, and neither does what is
// disabled.
func TestNothingIsKept(t *testing.T) {
	r := newRig(t, rigConfig{telemetry: []Option{WithRecent(Recent{Traces: -1})}})
	r.tools["fail"] = func(context.Context, *session.Request) (mcp.Result, error) { return nil, errPrivate }
	r.post(call("fail"), &sink{})
	r.post(call("echo"), &sink{})
	require.Empty(t, r.kept(""))
	rec := httptest.NewRecorder()
	tracesMux(Disabled()).ServeHTTP(rec, httptest.NewRequest("GET", "/debug/traces", nil))
	require.Contains(t, rec.Body.String(), `"traces": []`)
}

// TestKeptIsCut: what is kept of a request is small, whatever the client has sent.
func TestKeptIsCut(t *testing.T) {
	r := newRig(t, rigConfig{sampler: sdktrace.NeverSample()})
	in := call("echo")
	in.ID = mcp.StringID(strings.Repeat("i", 10000))
	in.Meta.ClientInfo = []byte(`{"name":"` + strings.Repeat("n", 10000) + `","version":"\u0000"}`)
	in.Version = mcp.Version(strings.Repeat("v", 10000))
	r.post(in, &sink{fail: brokenPipe(mcp.DropBrokenPeer)})
	row := r.kept("dropped")[0]
	require.Len(t, row.RequestID, maxText)
	require.Len(t, row.Client, maxName)
	require.Equal(t, "\ufffd", row.ClientVersion)
	require.Len(t, row.ProtocolVersion, maxName)
	require.False(t, row.Sampled)
}

// A transcript is a sink that remembers what it was given.
type transcript struct {
	sink
	text strings.Builder
}

func (s *transcript) Write(m *session.Message) error {
	s.text.Write(m.Frame)
	s.text.WriteByte('\n')
	return s.sink.Write(m)
}

// TestFullRing: callers get the same answers whether there is no ring, or one in which
// everything is full.
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

// TestRing: the oldest goes first, and in a second a ring takes in as many as it holds.
func TestRing(t *testing.T) {
	evicted := newInstruments(false).health.evicted.WithLabelValues(classError)
	g := newRing(3, evicted)
	var displaced []uint64
	for seq := range uint64(8) {
		if old := g.put(&keptTrace{seq: seq}); old != nil {
			displaced = append(displaced, old.seq)
		}
	}
	require.Equal(t, []uint64{0, 1, 2, 3, 4}, displaced)
	for _, c := range []struct {
		second int64
		want   bool
	}{{7, true}, {7, true}, {7, true}, {7, false}, {7, false}, {8, true}} {
		require.Equal(t, c.want, g.admit(c.second))
	}
	var m dto.Metric
	require.NoError(t, evicted.Write(&m))
	require.EqualValues(t, 5+2, m.GetCounter().GetValue())
}
