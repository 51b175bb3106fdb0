package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/trace"
)

// spanProbe is a context that remembers what it was asked for last.
type spanProbe struct {
	context.Context
	span trace.Span
	key  any
}

// Value implements [context.Context].
func (p *spanProbe) Value(key any) any {
	p.key = key
	return p.span
}

// unknownKey is the key of nothing.
type unknownKey struct{}

// learnSpanKey returns under which key package trace looks for the span of a context, so
// that a context can answer that has not been made by that package. ok is false if it does
// not work that way. find is [trace.SpanFromContext].
func learnSpanKey(find func(context.Context) trace.Span) (key any, ok bool) {
	p := &spanProbe{Context: context.Background(), span: &unsampledSpan{}}
	found := find(p) == p.span
	if p.key == nil || !found || trace.ContextWithSpan(context.Background(), p.span).Value(p.key) != any(p.span) {
		return unknownKey{}, false
	}
	return p.key, true
}
