package telemetry

import (
	"context"

	"go.opentelemetry.io/otel/trace"
)

// A handlerContext is the context of a request's handler, or is beneath it. It is a part of
// the operation, because a context of its own would be an allocation for each.
type handlerContext struct {
	context.Context
	op *Operation
	// span is the current one: at first the parent of the request's span, and then that
	// span, if it is not recorded. It does not change once others have the context.
	span trace.Span
}

type operationContextKey struct{}

// Value implements [context.Context]. It allocates nothing, and asks the contexts beneath
// for what is not known here.
func (c *handlerContext) Value(key any) any {
	switch key.(type) {
	case operationContextKey:
		if c.op.marked(markKeeps) {
			return c.op
		}
	case idsKey:
		return c.op
	}
	if key == c.op.series.tel.spanKey {
		return c.span
	}
	return c.Context.Value(key)
}

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
