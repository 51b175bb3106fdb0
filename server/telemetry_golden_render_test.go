package server_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/telemetry"
)

// render writes the spans and then the metrics of a scene, in names that stay the same:
// traces are letters, spans are numbered within their trace, sessions and tasks in the
// order in which they appear. Time is that of the bubble, so that it is exact.
func (s *stage) render() string {
	n := newNames(s)
	var b strings.Builder
	for _, span := range n.spans {
		n.writeSpan(&b, span)
	}
	s.writeMetrics(&b, n)
	return b.String()
}

// names gives what is random a name.
type names struct {
	spans    []sdktrace.ReadOnlySpan
	traces   map[trace.TraceID]string
	numbered map[trace.SpanID]string
	counts   map[trace.TraceID]int
	strange  map[string]string // sessions and tasks
}

func newNames(s *stage) *names {
	require.Len(s.t, s.spans.Ended(), len(s.spans.Started()), "every span ends")
	n := &names{
		spans: s.spans.Ended(), traces: map[trace.TraceID]string{}, numbered: map[trace.SpanID]string{},
		counts: map[trace.TraceID]int{}, strange: map[string]string{},
	}
	// At one instant of the bubble the order is decided by what the spans say.
	slices.SortStableFunc(n.spans, func(a, b sdktrace.ReadOnlySpan) int {
		return cmp.Or(a.StartTime().Compare(b.StartTime()), cmp.Compare(descent(a), descent(b)),
			cmp.Compare(fingerprint(a), fingerprint(b)))
	})
	for _, span := range n.spans {
		sc := span.SpanContext()
		letter, known := n.traces[sc.TraceID()]
		if !known {
			letter = string(rune('A' + len(n.traces)))
			n.traces[sc.TraceID()] = letter
		}
		n.counts[sc.TraceID()]++
		n.numbered[sc.SpanID()] = fmt.Sprintf("%s%d", letter, n.counts[sc.TraceID()])
	}
	return n
}

// descent puts a span behind the one that it is a child of.
func descent(s sdktrace.ReadOnlySpan) int {
	if s.Parent().IsValid() && !s.Parent().IsRemote() {
		return 1
	}
	return 0
}

func fingerprint(s sdktrace.ReadOnlySpan) string {
	list := []string{s.Name()}
	for _, kv := range sortedAttributes(s.Attributes()) {
		if kv.Key != "mcp.session.id" && kv.Key != "vitrine.task.id" {
			list = append(list, string(kv.Key)+kv.Value.String())
		}
	}
	return strings.Join(append(list, s.EndTime().String()), " ")
}

// span names a span: one of ours, or that of a caller, whose traceparent the scene has chosen.
func (n *names) span(sc trace.SpanContext) string {
	if name, ours := n.numbered[sc.SpanID()]; ours {
		return name
	}
	return fmt.Sprintf("remote 00-%s-%s-%s", sc.TraceID(), sc.SpanID(), sc.TraceFlags())
}

func (n *names) writeSpan(b *strings.Builder, s sdktrace.ReadOnlySpan) {
	fmt.Fprintf(b, "span %s: %s\n  kind: %s\n", n.span(s.SpanContext()), s.Name(), strings.ToUpper(s.SpanKind().String()))
	if s.Parent().IsValid() {
		fmt.Fprintf(b, "  parent: %s\n", n.span(s.Parent()))
	}
	for _, l := range s.Links() {
		fmt.Fprintf(b, "  link: %s\n", n.span(l.SpanContext))
	}
	if lasted := s.EndTime().Sub(s.StartTime()); lasted >= time.Microsecond {
		fmt.Fprintf(b, "  lasted: %v\n", lasted)
	}
	n.writeAttributes(b, "  ", s.Attributes())
	// Two goroutines may add their events in the same moment.
	events := slices.SortedStableFunc(slices.Values(s.Events()), func(a, b sdktrace.Event) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Name, b.Name))
	})
	for _, e := range events {
		fmt.Fprintf(b, "  event after %v: %s\n", e.Time.Sub(s.StartTime()).Round(time.Microsecond), e.Name)
		n.writeAttributes(b, "    ", e.Attributes)
	}
	fmt.Fprintf(b, "  status: %s", strings.ToUpper(s.Status().Code.String()))
	if s.Status().Description != "" {
		fmt.Fprintf(b, ", %q", strings.ReplaceAll(s.Status().Description, s.SpanContext().TraceID().String(), "<trace id>"))
	}
	b.WriteString("\n\n")
}

func sortedAttributes(attrs []attribute.KeyValue) []attribute.KeyValue {
	return slices.SortedFunc(slices.Values(attrs), func(a, b attribute.KeyValue) int { return cmp.Compare(a.Key, b.Key) })
}

func (n *names) writeAttributes(b *strings.Builder, indent string, attrs []attribute.KeyValue) {
	for _, kv := range sortedAttributes(attrs) {
		fmt.Fprintf(b, "%s%s = %s\n", indent, kv.Key, n.value(kv))
	}
}

// value renders the value of an attribute: strings in quotes, numbers as they are.
func (n *names) value(kv attribute.KeyValue) string {
	switch {
	case kv.Key == "mcp.session.id":
		return n.stranger("session", kv.Value.AsString())
	case kv.Key == "vitrine.task.id":
		return n.stranger("task", kv.Value.AsString())
	case kv.Key == "exception.stacktrace" && strings.Contains(kv.Value.AsString(), "goroutine "):
		return "<a stack>"
	case kv.Value.Type() == attribute.FLOAT64:
		return fmt.Sprint(time.Duration(kv.Value.AsFloat64() * float64(time.Second)).Round(time.Microsecond))
	case kv.Key == "exception.message": // package json has two wordings, and each process takes one of them
		return fmt.Sprintf("%q", strings.Replace(kv.Value.AsString(), "json: unable to", "json: cannot", 1))
	case kv.Value.Type() == attribute.STRING:
		return fmt.Sprintf("%q", kv.Value.AsString())
	}
	return kv.Value.String()
}

func (n *names) stranger(kind, value string) string {
	name, known := n.strange[value]
	if !known {
		name = fmt.Sprintf("<%s %d>", kind, len(n.strange)+1)
		n.strange[value] = name
	}
	return name
}

// A sample is the value of a counter or a gauge, or the count of a histogram, and the
// spans that its exemplars name.
type sample struct {
	kind      dto.MetricType
	value     float64
	exemplars []*dto.Exemplar
}

// samples returns every series of a registry; labels that are empty are left out, as
// Prometheus does.
func samples(t *testing.T, registry *prometheus.Registry) map[string]sample {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	all := map[string]sample{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				if l.GetValue() != "" {
					labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
				}
			}
			series := f.GetName() + "{" + strings.Join(labels, " ") + "}"
			all[strings.TrimSuffix(series, "{}")] = sampleOf(f.GetType(), m)
		}
	}
	return all
}

func sampleOf(kind dto.MetricType, m *dto.Metric) sample {
	switch kind {
	case dto.MetricType_COUNTER:
		x := sample{kind: kind, value: m.GetCounter().GetValue()}
		if e := m.GetCounter().GetExemplar(); e != nil {
			x.exemplars = append(x.exemplars, e)
		}
		return x
	case dto.MetricType_HISTOGRAM:
		x := sample{kind: kind, value: float64(m.GetHistogram().GetSampleCount())}
		for _, bucket := range m.GetHistogram().GetBucket() {
			if e := bucket.GetExemplar(); e != nil {
				x.exemplars = append(x.exemplars, e)
			}
		}
		return x
	}
	return sample{kind: kind, value: m.GetGauge().GetValue()}
}

// notZeroAtRest are the gauges of what is configured, and of what is kept when nothing is open any more.
var notZeroAtRest = append([]string{
	telemetry.MetricBuildInfo, telemetry.MetricShareSize, telemetry.MetricClassLimit, telemetry.MetricMemoryBound, telemetry.MetricToolsStreaming,
	telemetry.MetricAuthKeys, telemetry.MetricAuthKeysAge, telemetry.MetricAuthCachedTokens,
	telemetry.MetricRateLimitUsed, telemetry.MetricRateLimitBuckets, telemetry.MetricAuditHead,
}, changesGauges...)

// writeMetrics writes by how much each counter, and the count of each histogram, has
// grown. Nothing is in flight any more: every gauge is back at zero, but for tasks, which
// are kept when they have ended.
func (s *stage) writeMetrics(b *strings.Builder, n *names) {
	after := samples(s.t, s.registry)
	for _, series := range slices.Sorted(maps.Keys(after)) {
		x := after[series]
		name, _, _ := strings.Cut(series, "{")
		if x.kind == dto.MetricType_GAUGE {
			switch {
			case slices.Contains(notZeroAtRest, name):
			case strings.Contains(series, "max_task_bytes"), strings.Contains(series, "max_event_bytes_total"),
				strings.Contains(series, `part="tasks"`), strings.Contains(series, `part="events"`): // what is kept
			case name == telemetry.MetricTasks && x.value != 0:
				fmt.Fprintf(b, "%s = %v\n", series, x.value)
			default:
				require.Zero(s.t, x.value, "%s at rest", series)
			}
			continue
		}
		grown := x.value - s.before[series].value
		switch {
		case grown == 0:
			continue
		case name == telemetry.MetricWrite: // what is queued at the same moment may be one write, or two
			fmt.Fprintf(b, "%s has grown", series)
		default:
			fmt.Fprintf(b, "%s +%v", series, grown)
		}
		if names := n.exemplars(x.exemplars); len(names) > 0 {
			fmt.Fprintf(b, "  # %s", strings.Join(names, " "))
		}
		b.WriteByte('\n')
	}
}

// exemplars names the spans of exemplars.
func (n *names) exemplars(list []*dto.Exemplar) (all []string) {
	for _, e := range list {
		ids := map[string]string{}
		for _, l := range e.GetLabel() {
			ids[l.GetName()] = l.GetValue()
		}
		trID, _ := trace.TraceIDFromHex(ids["trace_id"])
		spanID, _ := trace.SpanIDFromHex(ids["span_id"])
		name := n.span(trace.NewSpanContext(trace.SpanContextConfig{TraceID: trID, SpanID: spanID}))
		if !strings.HasPrefix(name, n.traces[trID]) {
			name += " of a foreign trace"
		}
		all = append(all, name)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
