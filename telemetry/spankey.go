package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/trace"
)

// spanProbe is a context that remembers the latest key.
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

// unknownKey is a key that no context has.
type unknownKey struct{}

// learnSpanKey returns the key under which package trace looks for the span of a context. With it
// our own context can return its span. ok is false if package trace does not use a key. find is
// [trace.SpanFromContext]. The plain version is trace.ContextWithSpan, which allocates a second
// context for each request.
func learnSpanKey(find func(context.Context) trace.Span) (key any, ok bool) {
	p := &spanProbe{Context: context.Background(), span: &unsampledSpan{}}
	found := find(p) == p.span
	if p.key == nil || !found || trace.ContextWithSpan(context.Background(), p.span).Value(p.key) != any(p.span) {
		return unknownKey{}, false
	}
	return p.key, true
}
