package soak

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// patient are the limits of the server that good clients also use. Those on numbers are low and soon
// reached. Those on times are so long that a reading client on a busy machine never exceeds them.
var patient = server.Limits{
	MaxFrameBytes: 64 << 10, MaxInFlight: 48, MaxInFlightTotal: 400, MaxQueue: 300, MaxSessions: 60,
	MaxOutbound: 8, MaxQueuedMessages: 64, MaxQueuedBytes: 512 << 10, MaxConsecutiveMalformed: 20,
	RequestTimeout: 15 * time.Second, WriteTimeout: 15 * time.Second, NotifyTimeout: 200 * time.Millisecond,
	KeepAlive: 500 * time.Millisecond, EOFGrace: 10 * time.Second, CleanupGrace: 5 * time.Second,
	AbandonGrace: 10 * time.Second, SessionIdle: 1500 * time.Millisecond, InitializeTimeout: time.Second,
	OrphanGrace: 500 * time.Millisecond, MaxEventBytesTotal: 128 << 10,
}

// hasty are the limits of the server for the clients that do not care: their times
// are over within a short run.
var hasty = server.Limits{
	MaxInFlightTotal: 200, MaxQueue: 100, MaxQueuedMessages: 64, MaxQueuedBytes: 512 << 10,
	RequestTimeout: 250 * time.Millisecond, WriteTimeout: 400 * time.Millisecond, NotifyTimeout: 100 * time.Millisecond,
	EOFGrace: 100 * time.Millisecond, CleanupGrace: 100 * time.Millisecond, AbandonGrace: 200 * time.Millisecond,
}

// A world has two servers, which share their telemetry, and the counts of their clients.
type world struct {
	srv   *server.Server // with patient limits
	hasty *server.Server
	http  *http.Server
	addr  string // of the HTTP endpoints
	url   string // of the patient one

	pipes sync.WaitGroup // calls of ServePipe

	mu     sync.Mutex
	faults map[string]int
	broken atomic.Int64 // log records that indicate a bug

	calls atomic.Int64 // requests that clients have sent

	// Notifications that were refused, and those about which the client does not know.
	notesRefused, notesUnknown atomic.Int64
}

// newWorld starts the server.
func newWorld(t *testing.T) *world {
	w := &world{faults: map[string]int{}}
	tel, err := telemetry.New(telemetry.WithService("soak", "0"))
	if err != nil {
		t.Fatal(err)
	}
	logger := server.WithLogger(slog.New(&watchfulHandler{w}))
	w.srv = server.New("soak", "0", server.WithTelemetry(tel), server.WithLimits(patient), logger)
	w.hasty = server.New("hasty", "0", server.WithTelemetry(tel), server.WithLimits(hasty), logger)
	addTools(w.srv)
	addTools(w.hasty)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.addr = listener.Addr().String()
	w.url = "http://" + w.addr + "/mcp"
	mux := http.NewServeMux()
	mux.Handle("/mcp", w.srv.Handler())
	mux.Handle("/hasty", w.hasty.Handler())
	w.http = &http.Server{Handler: mux, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)}
	go w.http.Serve(listener)
	return w
}

type none struct{}

type text struct {
	Text string `json:"text"`
}

type span struct {
	MS int64 `json:"ms"`
}

type size struct {
	N int `json:"n"`
}

// addTools adds tools that work, and tools that misbehave.
func addTools(srv *server.Server) {
	server.AddTool(srv, server.Tool{Name: "echo"}, func(_ context.Context, _ *server.Call, in text) (string, error) {
		return in.Text, nil
	})
	server.AddTool(srv, server.Tool{Name: "sleep"}, func(ctx context.Context, _ *server.Call, in span) (string, error) {
		select {
		case <-time.After(time.Duration(in.MS) * time.Millisecond):
			return "slept", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	})
	server.AddTool(srv, server.Tool{Name: "stubborn"}, func(_ context.Context, _ *server.Call, in span) (string, error) {
		time.Sleep(time.Duration(in.MS) * time.Millisecond)
		return "slept", nil
	})
	server.AddTool(srv, server.Tool{Name: "panic"}, func(context.Context, *server.Call, none) (string, error) {
		panic("as requested")
	})
	server.AddTool(srv, server.Tool{Name: "goexit"}, func(context.Context, *server.Call, none) (string, error) {
		runtime.Goexit()
		return "", nil
	})
	server.AddTool(srv, server.Tool{Name: "fail"}, func(context.Context, *server.Call, none) (string, error) {
		return "", fmt.Errorf("as requested")
	})
	server.AddTool(srv, server.Tool{Name: "big"}, func(_ context.Context, _ *server.Call, in size) (string, error) {
		return strings.Repeat("x", min(in.N, 1<<20)), nil
	})
	server.AddTool(srv, server.Tool{Name: "progress"}, func(_ context.Context, call *server.Call, in size) (string, error) {
		for i := range min(in.N, 1000) {
			if err := call.Progress(float64(i+1), float64(in.N), ""); err != nil {
				return "", err
			}
		}
		return "done", nil
	})
	server.AddTool(srv, server.Tool{Name: "trickle"}, func(_ context.Context, call *server.Call, in size) (string, error) {
		for i := range 4 {
			if err := call.Progress(float64(i+1), 4, ""); err != nil {
				return "", err
			}
			nap(15 * time.Millisecond)
		}
		return strings.Repeat("x", min(in.N, 1<<20)), nil
	})
	server.AddTool(srv, server.Tool{Name: "ask"}, func(ctx context.Context, call *server.Call, _ none) (string, error) {
		answer, err := call.CallClient(ctx, "roots/list", nil)
		return string(answer), err
	})
}

// begin counts a request of a client.
func (w *world) begin() { w.calls.Add(1) }

// fault records that a client was treated wrongly.
func (w *world) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if text := fmt.Sprintf(format, args...); len(w.faults) < 50 || w.faults[text] > 0 {
		w.faults[text]++
	}
}

// watchfulHandler ignores log records, except those that indicate a bug of the server.
type watchfulHandler struct{ w *world }

func (h *watchfulHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h *watchfulHandler) Handle(_ context.Context, r slog.Record) error {
	switch r.Message {
	case "invariant.broken", "write.unclassified", "observer.panic":
		h.w.broken.Add(1)
		h.w.fault("the log has %s", r.Message)
	}
	return nil
}

func (h *watchfulHandler) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h *watchfulHandler) WithGroup(string) slog.Handler      { return h }

// report returns the requests in flight of the server.
func (w *world) report() *report.Requests {
	rec := httptest.NewRecorder()
	w.srv.Telemetry().RequestsHandler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/debug/requests", nil))
	rep := new(report.Requests)
	if err := json.Unmarshal(rec.Body.Bytes(), rep); err != nil {
		w.fault("/debug/requests: %v", err)
	}
	return rep
}

// A scrape has the values of /metrics, by series as written there.
type scrape map[string]float64

func (w *world) scrape() scrape {
	rec := httptest.NewRecorder()
	w.srv.Telemetry().MetricsHandler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	m := scrape{}
	for line := range bytes.Lines(rec.Body.Bytes()) {
		series, value, ok := strings.Cut(strings.TrimSpace(string(line)), "} ")
		if !ok {
			series, value, ok = strings.Cut(series, " ")
		}
		value, _, _ = strings.Cut(value, " ")
		if v, err := strconv.ParseFloat(value, 64); ok && err == nil {
			m[series] += v
		}
	}
	return m
}

// sum adds up the series of a metric that have a label, given as name="value".
func (m scrape) sum(name string, labels ...string) (total float64) {
series:
	for series, v := range m {
		if series != name && !strings.HasPrefix(series, name+"{") {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(series, l) {
				continue series
			}
		}
		total += v
	}
	return total
}

// by adds up the series of a metric by the value of one label.
func (m scrape) by(name, label string) map[string]float64 {
	sums := map[string]float64{}
	for series, v := range m {
		if !strings.HasPrefix(series, name+"{") || v == 0 {
			continue
		}
		if _, rest, ok := strings.Cut(series, label+`="`); ok {
			value, _, _ := strings.Cut(rest, `"`)
			sums[value] += v
		}
	}
	return sums
}

// replayed reports whether stored answers were fetched, and others have expired.
func (w *world) replayed() bool {
	m := w.scrape()
	return m.sum(telemetry.MetricResponsesFetched) > 0 && m.sum(telemetry.MetricResponsesExpired) > 0
}

// conserved checks the conservation law at rest, on both pages.
func (w *world) conserved(t *testing.T) {
	t.Helper()
	rep, m := w.report(), w.scrape()
	dropped := uint64(0)
	for _, n := range rep.Totals.Dropped {
		dropped += n
	}
	same := func(what string, a, b float64) {
		if a != b {
			t.Errorf("not conserved: %s: %v and %v", what, a, b)
		}
	}
	k := &rep.Totals
	same("admitted = sent + stored + dropped", float64(k.Admitted), float64(k.Sent+k.Stored+dropped))
	same("admitted on /metrics", m.sum(telemetry.MetricRequestsAdmitted), float64(k.Admitted))
	same("sent on /metrics", m.sum(telemetry.MetricResponsesSent), float64(k.Sent))
	same("dropped on /metrics", m.sum(telemetry.MetricResponsesDropped), float64(dropped))
	if !w.replayed() {
		t.Errorf("of %v stored answers %v were fetched and %v have expired, and some of both would have to be", m.sum(telemetry.MetricResponsesStored),
			m.sum(telemetry.MetricResponsesFetched), m.sum(telemetry.MetricResponsesExpired))
	}
	same("stored = fetched + expired + waiting", m.sum(telemetry.MetricResponsesStored),
		m.sum(telemetry.MetricResponsesFetched)+m.sum(telemetry.MetricResponsesExpired)+m.sum(telemetry.MetricResponsesWaiting))
	same("in flight on /metrics", m.sum(telemetry.MetricRequestsInFlight), 0)
	same("outbound on /metrics", m.sum(telemetry.MetricPendingOutbound), 0)
	same("abandoned now on /metrics", m.sum(telemetry.MetricAbandonedNow), 0)
	rejected := m.sum(telemetry.MetricRequestsRejected)
	ignored := m.sum(telemetry.MetricFramesIgnored, `kind="frame"`)
	requests := m.sum(telemetry.MetricMessagesReceived, `kind="request"`)
	invalid := m.sum(telemetry.MetricMessagesReceived, `kind="invalid"`)
	notes := int64(float64(k.Admitted) + ignored + rejected - requests - invalid) // that were rejected
	if low := w.notesRefused.Load(); notes < low || notes > low+w.notesUnknown.Load() {
		t.Errorf("not conserved: received %v requests and %v frames that are none; admitted %d, rejected %v, ignored %v, "+
			"and clients know of %d rejected notifications", requests, invalid, k.Admitted, rejected, ignored, low)
	}
}

// readAll reads a body to its end, at most a limit.
func readAll(r io.Reader) string {
	b, _ := io.ReadAll(io.LimitReader(r, 4<<20))
	return string(b)
}
