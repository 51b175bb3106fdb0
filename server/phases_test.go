package server_test

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// pausing returns a middleware that waits before and after the handler.
func pausing(before, after time.Duration) middleware.Middleware {
	return func(next middleware.Handler) middleware.Handler {
		return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
			time.Sleep(before)
			result, err := next(ctx, req)
			time.Sleep(after)
			return result, err
		}
	}
}

// readPage reads a page below /debug/ into page.
func readPage(t *testing.T, h http.Handler, target, id string, page any) {
	t.Helper()
	req := httptest.NewRequest("GET", target, nil)
	req.SetPathValue("id", id)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), page))
}

// phasesOf returns the seconds in each phase of the latest request that has ended.
func phasesOf(t *testing.T, tel *telemetry.Telemetry) map[string]float64 {
	t.Helper()
	var list report.Traces
	readPage(t, tel.TracesHandler(), "/debug/traces", "", &list)
	took := map[string]float64{}
	for _, p := range list.Traces[0].Phases {
		name := p.Phase
		if p.Name != "" {
			name += " " + p.Name
		}
		took[name] = math.Round(1e6*p.Seconds) / 1e6 // an event is counted from 1 ns on
	}
	return took
}

// newObserved returns telemetry and a server that reports to it.
func newObserved(t *testing.T, spans trace.SpanProcessor, opts ...server.Option) (*telemetry.Telemetry, *server.Server) {
	t.Helper()
	provider := trace.NewTracerProvider(trace.WithSpanProcessor(spans))
	tel, err := telemetry.New(telemetry.WithTracerProvider(provider))
	require.NoError(t, err)
	return tel, newServer(t, append(opts, server.WithTelemetry(tel))...)
}

// sleep is a handler that takes so long.
func sleep(d time.Duration) server.ToolHandler[struct{}, string] {
	return func(context.Context, *server.Call, struct{}) (string, error) {
		time.Sleep(d)
		return "done", nil
	}
}

func TestTimeInMiddlewaresIsNotTheHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spans := tracetest.NewSpanRecorder()
		tel, srv := newObserved(t, spans, server.WithMiddleware(pausing(5*time.Second, time.Second)))
		server.AddTool(srv, server.Tool{Name: "x", Middleware: []middleware.Middleware{pausing(0, 2*time.Second)}}, sleep(3*time.Second))
		p := dial(t, srv)
		require.Contains(t, p.ask(modern(1, "tools/call", call("x", `{}`))), "done")
		synctest.Wait()

		require.Equal(t, map[string]float64{
			"queued": 0, "running": 11, "writing": 0,
			"middleware server.pausing": 6, "middleware server.pausing#2": 2, "handler": 3,
		}, phasesOf(t, tel))
		attributes := map[string]float64{}
		for _, kv := range spans.Ended()[0].Attributes() {
			if key, ok := strings.CutPrefix(string(kv.Key), "vitrine.phase."); ok {
				attributes[key] = kv.Value.AsFloat64()
			}
		}
		require.Equal(t, map[string]float64{
			"middleware.server.pausing": 6, "middleware.server.pausing#2": 2, "handler": 3,
		}, attributes)
	})
}

func TestMiddlewaresBehindTheEighthAreOnePhase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var chain []middleware.Middleware
		for i := range 11 {
			chain = append(chain, pausing(time.Duration(i)*time.Second, 0))
		}
		tel, srv := newObserved(t, tracetest.NewSpanRecorder(), server.WithMiddleware(chain...))
		server.AddTool(srv, server.Tool{Name: "x"}, sleep(time.Second))
		p := dial(t, srv)
		p.ask(modern(1, "tools/call", call("x", `{}`)))
		synctest.Wait()
		phases := phasesOf(t, tel)
		require.Len(t, phases, 3+8+1+1)
		require.EqualValues(t, 7, phases["middleware server.pausing#8"])
		require.EqualValues(t, 8+9+10, phases["middleware others"])
		require.EqualValues(t, 1, phases["handler"])
	})
}

// A middleware that answers itself is the only phase. One that calls the handler twice has none of its
// time, nor has one whose handler panics.
func TestPhasesOfUnusualMiddlewares(t *testing.T) {
	answer := func(middleware.Handler) middleware.Handler {
		return func(context.Context, *middleware.Request) (mcp.Result, error) {
			time.Sleep(4 * time.Second)
			return mcp.ToolErrorResult("no"), nil
		}
	}
	twice := func(next middleware.Handler) middleware.Handler {
		return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
			time.Sleep(time.Second)
			if _, err := next(ctx, req); err != nil {
				return nil, err
			}
			return next(ctx, req)
		}
	}
	const name = "middleware server.TestPhasesOfUnusualMiddlewares"
	for _, c := range []struct {
		name string
		m    middleware.Middleware
		h    server.ToolHandler[struct{}, string]
		want map[string]float64
	}{
		{"answers", answer, sleep(time.Second), map[string]float64{name: 4}},
		{"calls twice", twice, sleep(3 * time.Second), map[string]float64{name: 1, "handler": 6}},
		{"panic", pausing(time.Second, 0), func(context.Context, *server.Call, struct{}) (string, error) {
			time.Sleep(2 * time.Second)
			panic("no")
		}, map[string]float64{"middleware server.pausing": 1, "handler": 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tel, srv := newObserved(t, tracetest.NewSpanRecorder(), server.WithMiddleware(c.m))
				server.AddTool(srv, server.Tool{Name: "x"}, c.h)
				p := dial(t, srv)
				p.ask(modern(1, "tools/call", call("x", `{}`)))
				synctest.Wait()
				phases := phasesOf(t, tel)
				for _, other := range []string{"queued", "running", "writing"} {
					delete(phases, other)
				}
				require.Equal(t, c.want, phases)
			})
		})
	}
}

// The page of what is in flight says in which middleware a request is, also behind the handler, and
// after the request was abandoned.
func TestPageSaysWhereARequestIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, srv := newObserved(t, tracetest.NewSpanRecorder(), server.WithMiddleware(pausing(0, 10*time.Second), pausing(10*time.Second, 0)))
		server.AddTool(srv, server.Tool{Name: "x"}, sleep(10*time.Second))
		p := dial(t, srv)
		p.send(modern(1, "tools/call", call("x", `{}`)))
		for _, want := range []string{"middleware server.pausing#2", "handler", "middleware server.pausing"} {
			time.Sleep(5 * time.Second)
			synctest.Wait()
			var page report.Requests
			readPage(t, tel.RequestsHandler(), "/debug/requests", "", &page)
			require.Len(t, page.Requests, 1)
			require.Equal(t, want, page.Requests[0].In)
			time.Sleep(5 * time.Second)
		}
		p.recv()
	})
}

func TestWithoutMiddlewaresARequestIsInTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spans := tracetest.NewSpanRecorder()
		tel, srv := newObserved(t, spans)
		server.AddTool(srv, server.Tool{Name: "x"}, sleep(10*time.Second))
		p := dial(t, srv)
		p.send(modern(1, "tools/call", call("x", `{}`)))
		time.Sleep(time.Second)
		var page report.Requests
		readPage(t, tel.RequestsHandler(), "/debug/requests", "", &page)
		require.Equal(t, "handler", page.Requests[0].In)
		p.recv()
		synctest.Wait()
		require.Equal(t, map[string]float64{"queued": 0, "running": 10, "writing": 0}, phasesOf(t, tel))
		for _, kv := range spans.Ended()[0].Attributes() {
			require.NotContains(t, string(kv.Key), "vitrine.phase")
		}
	})
}

// slowText takes a second to encode, and to decode.
type slowText string

func (s slowText) MarshalText() ([]byte, error) {
	time.Sleep(time.Second)
	return []byte(s), nil
}

func (s *slowText) UnmarshalText(text []byte) error {
	time.Sleep(2 * time.Second)
	*s = slowText(text)
	return nil
}

func TestPhasesOfArgumentsAndOutput(t *testing.T) {
	type value struct {
		Text slowText `json:"text"`
	}
	synctest.Test(t, func(t *testing.T) {
		tel, srv := newObserved(t, tracetest.NewSpanRecorder())
		server.AddTool(srv, server.Tool{Name: "x"}, func(_ context.Context, _ *server.Call, in value) (value, error) {
			time.Sleep(5 * time.Second)
			return in, nil
		})
		p := dial(t, srv)
		require.Contains(t, p.ask(modern(1, "tools/call", call("x", `{"text":"y"}`))), `"y"`)
		synctest.Wait()
		phases := phasesOf(t, tel)
		require.EqualValues(t, 2, phases["decode"])
		require.EqualValues(t, 5, phases["handler"])
		require.EqualValues(t, 1, phases["encode"])
		require.EqualValues(t, 8, phases["running"])
	})
}
