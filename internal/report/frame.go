package report

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A Frame has the requests in flight and the changes since the previous frame. All durations are in
// seconds.
type Frame struct {
	// Process is a random name of the process. Another process has other ids and counts.
	Process string    `json:"process"`
	Seq     uint64    `json:"seq"`
	At      time.Time `json:"at"`
	// Readiness is nil before the first probe.
	Readiness *Readiness `json:"readiness,omitempty"`
	// Rates are per second, since the previous frame: admitted, sent, errors, cancelled,
	// dropped, rejected. The first frame has none.
	Rates map[string]float64 `json:"rates,omitempty"`
	// InFlight counts the requests by state. The rows are the oldest requests.
	InFlight         map[string]int `json:"in_flight"`
	OldestAgeSeconds float64        `json:"oldest_age_seconds"`
	Shares           []Share        `json:"shares"`
	Classes          []Class        `json:"classes,omitempty"`
	Requests         List[Request]  `json:"requests"`
	Subscriptions    List[Request]  `json:"subscriptions"`
	Tasks            List[Task]     `json:"tasks"`
	Outbound         List[Outbound] `json:"outbound"`
	Sessions         List[Session]  `json:"sessions"`
	// SessionsByTransport counts all sessions, and SessionsStreaming those whose clients listen on their own streams, also
	// those that Sessions leaves out.
	SessionsByTransport map[string]int `json:"sessions_by_transport"`
	SessionsStreaming   int            `json:"sessions_streaming"`
	StoredEvents        *EventsHeld    `json:"stored_events,omitempty"`
	// EndedStreams are those that [InTurns] chooses.
	EndedStreams List[EndedStream] `json:"ended_streams"`
	Disconnects  Disconnects       `json:"disconnects"`
	// Tools has the most called. One with errors is left out only for another one with errors.
	Tools  List[Tool] `json:"tools"`
	Totals Totals     `json:"totals"`
	Errors uint64     `json:"errors"` // of the service, since the start
	// Kept counts the recent traces by class. Traces are those since the previous frame, and in
	// the first frame the latest ones, the newest first.
	Kept   map[string]int `json:"kept"`
	Traces List[Trace]    `json:"traces"`
}

// A List is the beginning of a list.
type List[T any] struct {
	Rows    []T `json:"rows"`
	LeftOut int `json:"left_out,omitzero"`
}

// Tool has the rate and latencies of one method and target.
type Tool struct {
	Method string `json:"method"`
	Tool   string `json:"tool,omitempty"`
	Calls  uint64 `json:"calls"`  // since the start
	Errors uint64 `json:"errors"` // of the service, since the start
	// Rate is the number of calls per second within the window. P50 and the others are quantiles
	// of the calls in the window, with an error of an eighth at most. WindowSeconds is 0 if there
	// was no call in the last minute. Then the quantiles are of all calls since the start.
	WindowSeconds float64 `json:"window_seconds"`
	Rate          float64 `json:"rate"`
	P50           float64 `json:"p50"`
	P95           float64 `json:"p95"`
	P99           float64 `json:"p99"`
}

// Event returns the frame as a server-sent event.
func (f *Frame) Event() []byte {
	b := fmt.Appendf(nil, "id: %d\nevent: frame\ndata: ", f.Seq)
	data, err := json.Marshal(f, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		data = []byte("null") // all fields can be encoded
	}
	return append(append(b, data...), "\n\n"...)
}
