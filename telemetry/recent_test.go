package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/stream"
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

// TestClasses checks that each outcome has its class and its facts.
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
		"tool error that is the caller's": {
			handle: func(_ context.Context, r *session.Request) (mcp.Result, error) {
				TestBridge.Error(r, mcp.ToolErrorf("%w", mcp.CallerFault(errors.New("no such order"))))
				result := &mcp.CallToolResult{IsError: true}
				TestBridge.Result(r, result)
				return result, nil
			},
			want: report.Trace{Class: "caller_error", Outcome: "sent", ToolError: true, Error: "no such order"},
		},
		"rejected arguments": {
			handle: func(_ context.Context, r *session.Request) (mcp.Result, error) {
				TestBridge.ArgumentsRejected(r, "/n: must be an \x1b[2Jinteger")
				result := &mcp.CallToolResult{IsError: true}
				TestBridge.Result(r, result)
				return result, nil
			},
			want: report.Trace{
				Class: "caller_error", Outcome: "sent", ToolError: true,
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

// TestCancelledAndAbandoned checks that a recent trace has the cause, the caller's reason and the
// time of its cancellation, and whether the handler was abandoned.
func TestCancelledAndAbandoned(t *testing.T) {
	for _, stubborn := range []bool{false, true} {
		t.Run(fmt.Sprint("stubborn ", stubborn), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, rigConfig{limits: limits.Limits{AbandonGrace: 2 * time.Second}})
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

// TestPhases checks the times of waiting, running, waiting for the client, and writing.
func TestPhases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{limits: limits.Limits{MaxInFlight: 1}})
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

// TestCallsThatStreamAreNotSlow checks that they are kept as ordinary calls are, the first one of each second,
// however long they last.
func TestCallsThatStreamAreNotSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{})
		r.streams = true
		var lasts time.Duration
		r.tools["follow"] = func(context.Context, *session.Request) (mcp.Result, error) {
			time.Sleep(lasts)
			return &mcp.CallToolResult{}, nil
		}
		for i := range 2 * enoughToCompare {
			lasts = time.Duration(i) * time.Millisecond
			r.post(call("follow"), &sink{})
		}
		require.Empty(t, r.kept("slow"))
		require.Len(t, r.kept("recent"), 1, "all have arrived in one second")
		time.Sleep(time.Second)
		r.post(call("follow"), &sink{})
		require.Len(t, r.kept("recent"), 2)

		r.streams = false // the tool was replaced by one that does not stream
		lasts = time.Millisecond
		for range enoughToCompare - 1 {
			r.post(call("follow"), &sink{})
		}
		require.Empty(t, r.kept("slow"), "nothing is compared with calls that stream")
		r.post(call("follow"), &sink{})
		require.Len(t, r.kept("slow"), slowPerSeries)
	})
}

// TestTracesQuery checks the order, and the filters by class, method and number.
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
	require.Regexp(t, `(?m)^1 +\S+ +\S+ +\d+ +error +sent +tools/call +fail +7 +tester 1\.2 +-32603 internal error +[0-9a-f]{32}$`, read("/debug/traces"))
	text := read("/debug/traces/1")
	require.Regexp(t, `(?m)^client +tester 1.2$`, text)
	require.Regexp(t, `(?m)^running +\S+ +\S+ +=+$`, text)
	require.Regexp(t, `(?m)^query +\S+ +\S+ +=+$`, text)
}

// TestNoRecentTraces checks that there are no recent traces when they are switched off, or
// telemetry is disabled.
func TestNoRecentTraces(t *testing.T) {
	r := newRig(t, rigConfig{telemetry: []Option{WithRecent(Recent{Traces: -1})}})
	r.tools["fail"] = func(context.Context, *session.Request) (mcp.Result, error) { return nil, errPrivate }
	r.post(call("fail"), &sink{})
	r.post(call("echo"), &sink{})
	require.Empty(t, r.kept(""))
	rec := httptest.NewRecorder()
	tracesMux(Disabled()).ServeHTTP(rec, httptest.NewRequest("GET", "/debug/traces", nil))
	require.Contains(t, rec.Body.String(), `"traces": []`)
}

// TestRecentTracesAreCut checks that a recent trace is small even if the client sends long strings.
func TestRecentTracesAreCut(t *testing.T) {
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

// A transcript is a sink that records its messages.
type transcript struct {
	sink
	text strings.Builder
}

func (s *transcript) Write(m *stream.Message) error {
	s.text.Write(m.Frame)
	s.text.WriteByte('\n')
	return s.sink.Write(m)
}
