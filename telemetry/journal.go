package telemetry

import (
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"

	"github.com/vitrine-mcp/vitrine/internal/report"
)

// A journal has what was set on a span of ours while it was open: by telemetry, and by the handler, which
// has the span in its context. It has as much as pages show.
type journal struct {
	mu         sync.Mutex // guards the rest
	name       string     // "" if it was not changed
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

// set sets attributes. Later values replace earlier ones of the same key.
func (j *journal) set(attrs []attribute.KeyValue) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, kv := range attrs {
		if kv.Valid() {
			j.attributes = setAttribute(j.attributes, kv)
		}
	}
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

// add adds an event.
func (j *journal) add(e journalEvent) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.events) < maxSpanEvents {
		j.events = append(j.events, e)
	}
}

// setStatus sets the status as the SDK does: OK is final, and only errors have a text.
func (j *journal) setStatus(code codes.Code, text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.status > code {
		return
	}
	if code != codes.Error {
		text = ""
	}
	j.status, j.statusText = code, text
}

func (j *journal) setName(name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.name = name
}

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
