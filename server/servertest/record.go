package servertest

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// A Recorder keeps the spans, metrics and log lines of the servers that it is given to. Make
// one with [Record]. It is an option of [server.New]. Its methods may be called from any
// goroutine.
//
// Spans end and metrics are counted after the answer has left, so that a client may be
// faster. Span, Log and Metric therefore wait for what they look for, as long as 10 seconds.
// In a bubble of package testing/synctest these are seconds of the bubble's clock, which a
// recorder moves by no more than some nanoseconds if what it looks for needs no more time.
type Recorder struct {
	server.Option

	telemetry *telemetry.Telemetry
	logger    *slog.Logger
	spans     spanLog
	lines     lineLog
}

// patience is how long assertions wait.
const patience = 10 * time.Second

// Record returns a recorder for one test. It samples every span, has a metrics registry of
// its own in which all counters begin at zero, takes log lines of every level, and exports
// nothing.
//
// Lines of the server go to the recorder only, not to slog's default logger. Spans that a
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
	tb.Cleanup(func() { _ = tel.Shutdown(context.Background()) }) // exports nothing: there is nothing to fail
	r.telemetry = tel
	r.logger = slog.New(tel.LogHandler(lineHandler{log: &r.lines}))
	r.Option = server.Options(server.WithTelemetry(tel), server.WithLogger(r.logger))
	return r
}

// Telemetry returns the telemetry that is recorded, for programs that report to it without
// our server.
func (r *Recorder) Telemetry() *telemetry.Telemetry { return r.telemetry }

// Logger returns a logger whose lines are recorded, for code that logs by itself, such as
// [middleware.Logging].
//
// [middleware.Logging]: https://pkg.go.dev/github.com/vitrine-mcp/vitrine/middleware#Logging
func (r *Recorder) Logger() *slog.Logger { return r.logger }

// await calls found until it returns true or the patience is over. It waits for a very short
// time at first: in a bubble of synctest that is enough for all that needs no time.
func await(found func() bool) bool {
	begin := time.Now()
	for pause := time.Nanosecond; !found(); pause = min(2*pause, 50*time.Millisecond) {
		if time.Since(begin) > patience {
			return false
		}
		time.Sleep(pause)
	}
	return true
}

// first waits for the first of several things that is wanted, and reports whether it came.
func first[T any](all func() []T, wanted func(T) bool) (found T, ok bool) {
	ok = await(func() bool {
		now := all()
		i := slices.IndexFunc(now, wanted)
		if i >= 0 {
			found = now[i]
		}
		return i >= 0
	})
	return found, ok
}

// hasAttrs reports whether something has attributes, given as keys and values.
func hasAttrs(of interface{ Attr(key string) string }, attrs []string) bool {
	for i := 0; i+1 < len(attrs); i += 2 {
		if of.Attr(attrs[i]) != attrs[i+1] {
			return false
		}
	}
	return true
}

// pairs checks that a list of names and values is one.
func pairs(tb testing.TB, list []string) {
	tb.Helper()
	if len(list)%2 != 0 {
		tb.Fatalf("servertest: %q must be names, each with its value", list)
	}
}

// having describes names and values as a part of a sentence.
func having(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return " with " + joined(list)
}

// joined writes names and values as they are written in logs.
func joined(list []string) string {
	var b strings.Builder
	for i := 0; i+1 < len(list); i += 2 {
		fmt.Fprintf(&b, " %s=%q", list[i], list[i+1])
	}
	return strings.TrimPrefix(b.String(), " ")
}

// listed describes what there was, one on a line.
func listed[T fmt.Stringer](what string, all []T) string {
	if len(all) == 0 {
		return "there were no " + what
	}
	var b strings.Builder
	fmt.Fprintf(&b, "there were these %s:", what)
	for _, one := range all {
		b.WriteString("\n\t" + one.String())
	}
	return b.String()
}
