// Package adapttest helps the tests of adapters to check the records of telemetry. It is for tests
// only.
package adapttest

import (
	"encoding/json"
	"net/http/httptest"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// patience is how long a rig waits for an event. Only failing tests wait so long.
const patience = 20 * time.Second

// A Rig is a Telemetry with its recorded spans.
type Rig struct {
	*telemetry.Telemetry
	// Of the tool wait; see [Rig.Wait].
	Started chan struct{}  // its handler was called
	Release chan struct{}  // lets it return
	Causes  chan mcp.Cause // why it was cancelled; "" if the cause is not known

	t     testing.TB
	spans *tracetest.SpanRecorder
}

// New returns a rig that samples every request.
func New(t testing.TB) *Rig {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	tel, err := telemetry.New(telemetry.WithTracerProvider(provider))
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, tel.Shutdown(t.Context()))
	})
	return &Rig{
		Telemetry: tel, Started: make(chan struct{}, 10), Release: make(chan struct{}), Causes: make(chan mcp.Cause, 10), t: t, spans: spans,
	}
}

// Eventually waits until ok.
func (r *Rig) Eventually(ok func() bool, what string) {
	r.t.Helper()
	require.Eventually(r.t, ok, patience, time.Millisecond, what)
}

// Receive waits for a value of a channel.
func Receive[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		require.FailNow(t, "timed out", what)
		panic("unreachable")
	}
}

// A Span is a span that has ended.
type Span struct {
	sdktrace.ReadOnlySpan
	Attributes map[string]any
	Events     []string
}

// Span waits for the last span with a name.
func (r *Rig) Span(name string) Span {
	r.t.Helper()
	var found sdktrace.ReadOnlySpan
	r.Eventually(func() bool {
		for _, s := range r.spans.Ended() {
			if s.Name() == name {
				found = s
			}
		}
		return found != nil
	}, "span "+name)
	span := Span{ReadOnlySpan: found, Attributes: map[string]any{}}
	for _, a := range found.Attributes() {
		span.Attributes[string(a.Key)] = a.Value.AsInterface()
	}
	for _, e := range found.Events() {
		span.Events = append(span.Events, e.Name)
	}
	return span
}

// Labels are the labels of a metric that a test checks.
type Labels map[string]string

// Metric returns the sum of the series of a metric that have the labels. For a histogram it is the
// number of observations.
func (r *Rig) Metric(name string, labels Labels) float64 {
	r.t.Helper()
	families, err := r.Registry().Gather()
	require.NoError(r.t, err)
	sum := 0.0
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			if !has(m, labels) {
				continue
			}
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

func has(m *dto.Metric, labels Labels) bool {
	found := 0
	for _, pair := range m.GetLabel() {
		if want, ok := labels[pair.GetName()]; ok {
			if want != pair.GetValue() {
				return false
			}
			found++
		}
	}
	return found == len(labels)
}

// A Request is a row of /debug/requests.
type Request struct {
	ID, Method, Tool, State, Client, Transport, Remote string
	CancelCause                                        string `json:"cancel_cause"`
}

// A Session is a row of /debug/requests.
type Session struct {
	Client, Transport string
}

// Live reads /debug/requests.
func (r *Rig) Live() (requests, subscriptions []Request, sessions []Session) {
	r.t.Helper()
	w := httptest.NewRecorder()
	r.RequestsHandler().ServeHTTP(w, httptest.NewRequest("GET", "/debug/requests", nil))
	var page struct {
		Requests, Subscriptions []Request
		Sessions                []Session
	}
	require.NoError(r.t, json.Unmarshal(w.Body.Bytes(), &page), w.Body.String())
	return page.Requests, page.Subscriptions, page.Sessions
}

// A Trace is a row of /debug/traces.
type Trace struct {
	Class, Method, Tool, Outcome, Panic, Client, Transport string
	ErrorType                                              string `json:"error_type"`
	CancelCause                                            string `json:"cancel_cause"`
	CancelDetail                                           string `json:"cancel_detail"`
	RejectReason                                           string `json:"reject_reason"`
	RequestID                                              string `json:"request_id"`
	ProtocolVersion                                        string `json:"protocol_version"`
}

// Ended waits for the latest request of a method in /debug/traces.
func (r *Rig) Ended(method string) Trace {
	r.t.Helper()
	var found *Trace
	r.Eventually(func() bool {
		w := httptest.NewRecorder()
		r.TracesHandler().ServeHTTP(w, httptest.NewRequest("GET", "/debug/traces?method="+method, nil))
		var page struct{ Traces []Trace }
		if json.Unmarshal(w.Body.Bytes(), &page) != nil || len(page.Traces) == 0 {
			return false
		}
		found = &page.Traces[0]
		return true
	}, "a trace of "+method)
	return *found
}

// SpanNames returns the names of all spans that have ended.
func (r *Rig) SpanNames() (names []string) {
	for _, s := range r.spans.Ended() {
		names = append(names, s.Name())
	}
	return names
}
