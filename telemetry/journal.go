package telemetry

import (
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/internal/report"
)

// A journal has what was set on a span of ours while it was open: by telemetry, and by the handler, which
// has the span in its context. It has as much as pages show. Its methods are those of [trace.Span].
type journal struct {
	mu         sync.Mutex // guards the rest
	closed     bool
	name       string // "" if it was not changed
	status     codes.Code
	statusText string
	attributes []attribute.KeyValue
	events     []journalEvent
}

type journalEvent struct {
	name       string
	at         time.Time
	attributes []attribute.KeyValue
}

// IsRecording implements [trace.Span].
func (j *journal) IsRecording() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return !j.closed
}

// change calls f with the lock held, unless the journal is closed.
func (j *journal) change(f func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.closed {
		f()
	}
}

// close closes the journal. It returns false if the journal was closed before.
func (j *journal) close() (first bool) {
	j.change(func() { j.closed, first = true, true })
	return first
}

// SetAttributes implements [trace.Span]. Later values replace earlier ones of the same key.
func (j *journal) SetAttributes(attrs ...attribute.KeyValue) {
	j.change(func() {
		for _, kv := range attrs {
			if kv.Valid() {
				j.attributes = setAttribute(j.attributes, kv)
			}
		}
	})
}

// setAttribute sets an attribute in a list of at most maxSpanAttributes.
func setAttribute(attrs []attribute.KeyValue, kv attribute.KeyValue) []attribute.KeyValue {
	for i := range attrs {
		if attrs[i].Key == kv.Key {
			attrs[i] = kv
			return attrs
		}
	}
	if len(attrs) < maxSpanAttributes {
		attrs = append(attrs, kv)
	}
	return attrs
}

// AddEvent implements [trace.Span].
func (j *journal) AddEvent(name string, options ...trace.EventOption) {
	j.change(func() {
		if len(j.events) < maxSpanEvents {
			c := trace.NewEventConfig(options...)
			j.events = append(j.events, journalEvent{name, c.Timestamp(), c.Attributes()})
		}
	})
}

// RecordError implements [trace.Span]. The event is that of the SDK, without a stack.
func (j *journal) RecordError(err error, options ...trace.EventOption) {
	if err != nil {
		j.AddEvent(eventException, append(options, trace.WithAttributes(
			keyExceptionType.String(sdkTypeName(err)), keyExceptionMessage.String(err.Error())))...)
	}
}

// sdkTypeName names a type as the SDK does.
func sdkTypeName(value any) string {
	t := reflect.TypeOf(value)
	if t.PkgPath() == "" && t.Name() == "" {
		return t.String()
	}
	return fmt.Sprintf("%s.%s", t.PkgPath(), t.Name())
}

// SetStatus implements [trace.Span]. As in the SDK, OK is final and only errors have a text.
func (j *journal) SetStatus(code codes.Code, text string) {
	j.change(func() {
		if j.status > code {
			return
		}
		if code != codes.Error {
			text = ""
		}
		j.status, j.statusText = code, text
	})
}

// SetName implements [trace.Span].
func (j *journal) SetName(name string) { j.change(func() { j.name = name }) }

// copy returns a copy for a record, with texts that are cut. The attributes of its events are in their
// texts.
func (j *journal) copy() *journalCopy {
	j.mu.Lock()
	defer j.mu.Unlock()
	c := &journalCopy{
		name: clip(j.name, maxText), status: j.status, statusText: clip(j.statusText, maxText),
		attributes: make([]report.Attribute, len(j.attributes)), events: make([]report.SpanEvent, len(j.events)),
		at: make([]time.Time, len(j.events)),
	}
	for i, kv := range j.attributes {
		c.attributes[i] = shownAttribute(kv)
	}
	for i, e := range j.events {
		c.events[i], c.at[i] = report.SpanEvent{Name: clip(e.name, maxName), Text: eventText(e.attributes)}, e.at
	}
	return c
}

// A journalCopy is what a record has of a journal. It is immutable.
type journalCopy struct {
	name       string
	status     codes.Code
	statusText string
	attributes []report.Attribute
	events     []report.SpanEvent // without their times
	at         []time.Time        // when they happened
}

// eventsSince returns the events with times since the arrival of a request.
func (c *journalCopy) eventsSince(arrived time.Time) []report.SpanEvent {
	events := slices.Clone(c.events)
	for i := range events {
		events[i].AfterSeconds = c.at[i].Sub(arrived).Seconds()
	}
	return events
}
