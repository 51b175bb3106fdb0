package telemetry

import (
	"context"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// The HTTP requests that a handler makes are on its record and in the groups, by host and method.
func TestOutgoingRequestsOfHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{})
		ask := func(ctx context.Context, method string, took time.Duration, failed bool, attrs ...attribute.KeyValue) {
			_, span := r.tel.provider.Tracer("http").Start(ctx, "HTTP "+method, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attrs...))
			time.Sleep(took)
			if failed {
				span.SetStatus(codes.Error, "503")
			}
			span.End()
		}
		backend := []attribute.KeyValue{attribute.String("server.address", "backend"), attribute.Int("server.port", 8080)}
		r.tools["fetch"] = func(ctx context.Context, _ *session.Request) (mcp.Result, error) {
			get := append([]attribute.KeyValue{attribute.String("http.request.method", "GET")}, backend...)
			ask(ctx, "GET", time.Second/10, false, get...)
			ask(ctx, "GET", time.Second/2, true, get...)
			ask(ctx, "POST", time.Second/20, false, attribute.String("http.method", "POST"), attribute.String("net.peer.name", "old"))
			ask(ctx, "query", time.Second/50, false, attribute.String("db.system", "sql"))
			return nil, errPrivate // errors are kept
		}
		r.post(callOf("fetch", "desk", "2", "ann"), &sink{})
		r.post(callOf("fetch", "desk", "2", "ann"), &sink{})
		row := func(times int) []report.Outgoing {
			n := float64(times)
			return []report.Outgoing{
				{Host: "backend:8080", Method: "GET", Count: 2 * times, Errors: times, P50Seconds: 0.1, MaxSeconds: 0.5, SumSeconds: 0.6 * n},
				{Host: "old", Method: "POST", Count: times, P50Seconds: 0.05, MaxSeconds: 0.05, SumSeconds: 0.05 * n},
			}
		}
		list := fetch[report.Traces](t, r, "/debug/traces")
		require.Len(t, list.Traces, 2)
		detail := fetch[report.TraceDetail](t, r, "/debug/traces/"+list.Traces[0].ID)
		require.Equal(t, row(1), rounded(detail.Outgoing))
		one := answerOf(tracesMux(r.tel), "/debug/traces/"+list.Traces[0].ID+"?format=text")
		require.Regexp(t, `(?m)^backend:8080 +GET +2 +1 +100ms +500ms +600ms$`, one.Body.String())

		page := fetch[report.Groups](t, r, "/debug/traces?group=tool")
		require.Equal(t, row(2), rounded(page.Outgoing))
		var text strings.Builder
		page.WriteText(&text)
		require.Regexp(t, `(?m)^old +POST +2 +0 +50ms +50ms +100ms$`, text.String())
		require.Empty(t, fetch[report.Groups](t, r, "/debug/traces?group=tool&tool=echo").Outgoing)

		r.tools["retried"] = r.tools["fetch"]
		for range 2 { // two attempts of one trace share its spans
			in := callOf("retried", "desk", "2", "ann")
			in.Meta.TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
			r.post(in, &sink{})
		}
		require.Equal(t, row(2), rounded(fetch[report.Groups](t, r, "/debug/traces?group=tool&tool=retried").Outgoing))
	})
}

// rounded rounds sums, whose last digit depends on their order.
func rounded(rows []report.Outgoing) []report.Outgoing {
	for i := range rows {
		rows[i].SumSeconds = math.Round(rows[i].SumSeconds*1000) / 1000
	}
	return rows
}
