package telemetry

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// A recordedSpan is the span of a request that is sampled and not exported. It has an identity like an
// unsampled one. What the handler sets on it is in the operation's journal, and the rest is made of the
// operation's record when somebody opens its page. The operation ends it.
type recordedSpan struct{ unsampledSpan }

// IsRecording implements [trace.Span].
func (s *recordedSpan) IsRecording() bool { return !s.op.marked(markEnded) }

// SetAttributes implements [trace.Span].
func (s *recordedSpan) SetAttributes(attrs ...attribute.KeyValue) {
	if s.IsRecording() {
		s.op.journal().SetAttributes(attrs...)
	}
}

// AddEvent implements [trace.Span].
func (s *recordedSpan) AddEvent(name string, options ...trace.EventOption) {
	if s.IsRecording() {
		s.op.journal().AddEvent(name, options...)
	}
}

// RecordError implements [trace.Span].
func (s *recordedSpan) RecordError(err error, options ...trace.EventOption) {
	if s.IsRecording() {
		s.op.journal().RecordError(err, options...)
	}
}

// SetStatus implements [trace.Span].
func (s *recordedSpan) SetStatus(code codes.Code, description string) {
	if s.IsRecording() {
		s.op.journal().SetStatus(code, description)
	}
}

// SetName implements [trace.Span].
func (s *recordedSpan) SetName(name string) {
	if s.IsRecording() {
		s.op.journal().SetName(name)
	}
}

// journal returns the journal of the operation's span. It makes the journal on first use.
func (op *Operation) journal() *journal {
	if n := op.notes.Load(); n != nil && n.journal != nil {
		return n.journal
	}
	fresh := &journal{}
	op.note(func(n *notes) {
		if n.journal == nil {
			n.journal = fresh
		}
	})
	return op.notes.Load().journal
}
