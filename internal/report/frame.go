package report

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A Frame is what has changed since the frame before, and what is in flight. All
// durations are seconds.
type Frame struct {
	// Process names the process at random: the next one has requests and numbers of its own.
	Process string    `json:"process"`
	Seq     uint64    `json:"seq"`
	At      time.Time `json:"at"`
	// Readiness is nil until somebody has asked.
	Readiness *Readiness `json:"readiness,omitempty"`
	// Rates are per second, since the frame before: admitted, sent, errors, cancelled,
	// dropped, rejected. There are none in the first frame.
	Rates map[string]float64 `json:"rates,omitempty"`
	// InFlight counts the requests by state; the rows are the oldest of them.
	InFlight         map[string]int `json:"in_flight"`
	OldestAgeSeconds float64        `json:"oldest_age_seconds"`
	Requests         List[Request]  `json:"requests"`
	Subscriptions    List[Request]  `json:"subscriptions"`
	Tasks            List[Task]     `json:"tasks"`
	Outbound         List[Outbound] `json:"outbound"`
	Sessions         List[Session]  `json:"sessions"`
	Tools            List[Tool]     `json:"tools"`
	Totals           Totals         `json:"totals"`
	Errors           uint64         `json:"errors"` // of the service, since the start
	// Kept counts the requests in the ring of recent traces. Traces are those that were
	// kept since the frame before, or in the first frame the latest, the newest first.
	Kept   map[string]int `json:"kept"`
	Traces List[Trace]    `json:"traces"`
}

// A List is the beginning of a list.
type List[T any] struct {
	Rows    []T `json:"rows"`
	LeftOut int `json:"left_out,omitzero"`
}

// Tool is the speed of one method and target.
type Tool struct {
	Method string `json:"method"`
	Tool   string `json:"tool,omitempty"`
	Calls  uint64 `json:"calls"`  // since the start
	Errors uint64 `json:"errors"` // of the service, since the start
	// Rate is calls a second within the window, P50 and the others the quantiles of the
	// calls in it, off by an eighth at most. WindowSeconds is 0 if nothing was called in the
	// last minute; the quantiles are then those since the start.
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
		data = []byte("null") // no field of it can fail
	}
	return append(append(b, data...), "\n\n"...)
}
