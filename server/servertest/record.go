package servertest

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// A Recorder records the spans, metrics and log lines of servers. Make one with [Record] and
// pass it to [server.New] as an option. It is safe for concurrent use.
//
// Spans end and metrics are counted after the answer was sent, so that the client may have
// the answer before. So Span, Log and Metric wait for up to 10 seconds. In a bubble of package
// testing/synctest these are seconds of the bubble's clock. The recorder moves that clock by
// some nanoseconds only, if what it looks for takes no time.
type Recorder struct {
	server.Option

	telemetry *telemetry.Telemetry
	logger    *slog.Logger
	spans     spanLog
	lines     lineLog
}

// Record returns a recorder for one test. It samples every span, has a metrics registry of
// its own in which all counters begin at zero, takes log lines of every level, and exports
// nothing.
//
// Log lines of the server go to the recorder only, not to slog's default logger. Spans that a
// handler starts with the tracer provider of the span in its context are recorded as well.
func Record(tb testing.TB) *Recorder {
	tb.Helper()
	r := &Recorder{}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.AlwaysSample()), sdktrace.WithSpanProcessor(&r.spans))
	tel, err := telemetry.New(
		telemetry.WithRegistry(prometheus.NewRegistry()), telemetry.WithTracerProvider(provider),
		telemetry.WithLogger(slog.New(lineHandler{log: &r.lines})))
	if err != nil {
		tb.Fatalf("servertest: record: %v", err)
	}
	tb.Cleanup(func() { _ = tel.Shutdown(context.Background()) }) // without exports it does not fail
	r.telemetry = tel
	r.logger = slog.New(tel.LogHandler(lineHandler{log: &r.lines}))
	r.Option = server.Options(server.WithTelemetry(tel), server.WithLogger(r.logger))
	return r
}

// Telemetry returns the recorded telemetry, for programs that report to it without
// [server.Server].
func (r *Recorder) Telemetry() *telemetry.Telemetry { return r.telemetry }

// Logger returns a logger whose lines are recorded, for code with a logger of its own, such as
// [middleware.Logging].
//
// [middleware.Logging]: https://pkg.go.dev/github.com/vitrine-mcp/vitrine/middleware#Logging
func (r *Recorder) Logger() *slog.Logger { return r.logger }

// Span returns the first span that has ended with a name, such as "tools/call forecast",
// and with these attributes, given as keys and values; "" stands for an attribute that is
// absent. It waits for such a span, and ends the test if there is none.
func (r *Recorder) Span(tb testing.TB, name string, attrs ...string) *Span {
	tb.Helper()
	pairs(tb, attrs)
	found, ok := first(r.Spans, func(s *Span) bool { return s.Name() == name && hasAttrs(s, attrs) })
	if !ok {
		ended, open := r.spans.all()
		text := listed("spans", ended)
		if len(open) > 0 {
			text += "\nand these that have not ended: " + strings.Join(open, ", ")
		}
		tb.Fatalf("servertest: no span %q%s has ended; %s", name, having(attrs), text)
	}
	return found
}

// Spans returns the spans that have ended so far, in the order of their ends. It does not wait.
func (r *Recorder) Spans() []*Span {
	ended, _ := r.spans.all()
	return ended
}

// Log returns the first log line with a message, such as "handler.error", and with these
// attributes, given as keys and values; "" stands for an attribute that is absent. It waits
// for such a line, and ends the test if there is none.
func (r *Recorder) Log(tb testing.TB, message string, attrs ...string) *LogLine {
	tb.Helper()
	pairs(tb, attrs)
	found, ok := first(r.lines.all, func(l *LogLine) bool { return l.Message == message && hasAttrs(l, attrs) })
	if !ok {
		tb.Fatalf("servertest: no log line %q%s; %s", message, having(attrs), listed("lines", r.lines.all()))
	}
	return found
}

// Logs returns the log lines so far that have at least a level, in their order. It does not
// wait. A test that must log no warning closes its client, which waits until the server has
// finished, and then checks Logs(slog.LevelWarn).
func (r *Recorder) Logs(level slog.Level) []*LogLine {
	return slices.DeleteFunc(r.lines.all(), func(l *LogLine) bool { return l.Level < level })
}

// Metric waits until a metric has a value, and fails the test if it never has. The name and
// the labels, given as names and values, are those of Prometheus, such as
// "vitrine_responses_sent_total" and "method". The value is the sum of all series that have
// the labels, and 0 if there are none; the value of a histogram is the number of its
// observations.
//
// The recorder's metrics begin at zero. Metric ends the test if neither Vitrine nor a collector
// of the program in the registry has a metric with that name, or if a metric of Vitrine does
// not have that label.
func (r *Recorder) Metric(tb testing.TB, name string, want float64, labels ...string) {
	tb.Helper()
	r.checkMetric(tb, name, labels)
	var got float64
	if !await(func() bool {
		got = r.sum(name, labels)
		return got == want
	}) {
		tb.Errorf("servertest: metric %s%s is %v, want %v; %s", name, having(labels), got, want, listed("series", r.series(name)))
	}
}

// MetricValue returns the current value of a metric, by the rules of [Recorder.Metric]. It
// does not wait.
func (r *Recorder) MetricValue(tb testing.TB, name string, labels ...string) float64 {
	tb.Helper()
	r.checkMetric(tb, name, labels)
	return r.sum(name, labels)
}

// checkMetric ends the test if there is no such metric, or it does not have these labels.
func (r *Recorder) checkMetric(tb testing.TB, name string, labels []string) {
	tb.Helper()
	pairs(tb, labels)
	if problem := r.unknown(name, labels); problem != "" {
		tb.Fatalf("servertest: %s", problem)
	}
}

// unknown returns what is wrong with a name and its labels, or "".
func (r *Recorder) unknown(name string, labels []string) string {
	var names []string
	for _, m := range telemetry.Catalogue() {
		names = append(names, m.Name)
		if m.Name != name {
			continue
		}
		var has []string
		for _, l := range m.Labels {
			has = append(has, l.Name)
		}
		for i := 0; i < len(labels); i += 2 {
			if !slices.Contains(has, labels[i]) {
				return fmt.Sprintf("metric %s has no label %q; it has these: %s", name, labels[i], strings.Join(has, ", "))
			}
		}
		return ""
	}
	families := r.gather()
	if slices.ContainsFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == name }) {
		return ""
	}
	for _, f := range families {
		names = append(names, f.GetName())
	}
	slices.Sort(names)
	return fmt.Sprintf("there is no metric %q; there are these:\n\t%s", name, strings.Join(slices.Compact(names), "\n\t"))
}

// gather returns the metrics of the registry.
func (r *Recorder) gather() []*dto.MetricFamily {
	families, _ := r.telemetry.Registry().Gather() // an error is that of a collector of the program
	return families
}

// sum adds up the series of a metric that have the labels.
func (r *Recorder) sum(name string, labels []string) (sum float64) {
	for _, s := range r.series(name) {
		if hasAttrs(s, labels) {
			sum += s.value()
		}
	}
	return sum
}

// series returns the series of a metric.
func (r *Recorder) series(name string) (all []series) {
	for _, f := range r.gather() {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			all = append(all, series{m})
		}
	}
	return all
}
