package servertest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// A Span is a span that has ended.
type Span struct {
	// ReadOnlySpan has everything that OpenTelemetry knows about the span.
	sdktrace.ReadOnlySpan
}

// Attr returns the value of an attribute as text, "" if the span does not have it.
func (s *Span) Attr(key string) string {
	for _, kv := range s.Attributes() {
		if string(kv.Key) == key {
			return kv.Value.String()
		}
	}
	return ""
}

// HasEvent reports whether the span has an event, such as "vitrine.cancelled".
func (s *Span) HasEvent(name string) bool {
	return slices.ContainsFunc(s.Events(), func(e sdktrace.Event) bool { return e.Name == name })
}

// String describes the span on one line.
func (s *Span) String() string {
	var list []string
	for _, kv := range s.Attributes() {
		list = append(list, string(kv.Key), kv.Value.String())
	}
	text := fmt.Sprintf("%q %s", s.Name(), joined(list))
	if status := s.Status(); status.Code != codes.Unset {
		text += fmt.Sprintf(" (status %s %q)", status.Code, status.Description)
	}
	for _, e := range s.Events() {
		text += fmt.Sprintf(" (event %q)", e.Name)
	}
	return text
}

// A spanLog keeps spans. It is a [sdktrace.SpanProcessor].
type spanLog struct {
	mu    sync.Mutex
	ended []*Span
	open  map[trace.SpanID]sdktrace.ReadOnlySpan
}

// all returns the spans that have ended, and the names of those that have not.
func (l *spanLog) all() (ended []*Span, open []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.open {
		open = append(open, fmt.Sprintf("%q", s.Name()))
	}
	slices.Sort(open)
	return slices.Clone(l.ended), open
}

// OnStart implements [sdktrace.SpanProcessor].
func (l *spanLog) OnStart(_ context.Context, s sdktrace.ReadWriteSpan) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open = map[trace.SpanID]sdktrace.ReadOnlySpan{}
	}
	l.open[s.SpanContext().SpanID()] = s
}

// OnEnd implements [sdktrace.SpanProcessor].
func (l *spanLog) OnEnd(s sdktrace.ReadOnlySpan) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, s.SpanContext().SpanID())
	l.ended = append(l.ended, &Span{s})
}

// Shutdown implements [sdktrace.SpanProcessor].
func (*spanLog) Shutdown(context.Context) error { return nil }

// ForceFlush implements [sdktrace.SpanProcessor].
func (*spanLog) ForceFlush(context.Context) error { return nil }
