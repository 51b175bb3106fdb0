package report

import "time"

// Requests is what /debug/requests answers with: a consistent copy of all that
// is in flight. All durations are seconds. What a client says of itself is cut and
// fit to print, but not true for that.
type Requests struct {
	At time.Time `json:"at"`
	// Readiness is nil until somebody has asked.
	Readiness *Readiness `json:"readiness,omitempty"`
	// InFlight counts the requests by state; every state is there.
	InFlight         map[string]int `json:"in_flight"`
	OldestAgeSeconds float64        `json:"oldest_age_seconds"`
	// Callers are those that have most requests in flight, at most 20, the busiest first;
	// CallersLeftOut counts the others.
	Callers        []Caller  `json:"callers"`
	CallersLeftOut int       `json:"callers_left_out,omitzero"`
	Requests       []Request `json:"requests"` // oldest first, without the subscriptions
	// Subscriptions are the requests that stay open. They have no deadline.
	Subscriptions []Request `json:"subscriptions"` // oldest first
	// Tasks are the handlers that run as tasks, TaskStatus counts the tasks that are kept by
	// their status, if there is a server with tasks.
	Tasks      []Task         `json:"tasks"` // oldest first
	TaskStatus map[string]int `json:"task_status,omitempty"`
	// Outbound holds our requests to clients that are not answered yet.
	Outbound []Outbound `json:"outbound"` // oldest first
	Sessions []Session  `json:"sessions"` // oldest first
	Totals   Totals     `json:"totals"`   // since the start
}

// Request is one request in flight.
type Request struct {
	Session    string  `json:"session,omitempty"` // the start of its id, or the transport
	ID         string  `json:"id"`
	Method     string  `json:"method"`
	Tool       string  `json:"tool,omitempty"` // the registered tool or prompt
	State      string  `json:"state"`          // queued, running, blocked, writing, cancelled, listening
	AgeSeconds float64 `json:"age_seconds"`
	// DeadlineSeconds is the time left; it is negative when the deadline has passed, and
	// absent if there is none.
	DeadlineSeconds     float64 `json:"deadline_seconds,omitzero"`
	CancelCause         string  `json:"cancel_cause,omitempty"`
	CancelDetail        string  `json:"cancel_detail,omitempty"`
	CancelledForSeconds float64 `json:"cancelled_for_seconds,omitzero"`
	Abandoned           bool    `json:"abandoned,omitzero"`
	TraceID             string  `json:"trace_id,omitempty"`
	SpanID              string  `json:"span_id,omitempty"`
	Principal           string  `json:"principal,omitempty"` // cut to 64 bytes
	Tenant              string  `json:"tenant,omitempty"`
	Client              string  `json:"client,omitempty"`
	ClientVersion       string  `json:"client_version,omitempty"`
	ProtocolVersion     string  `json:"protocol_version,omitempty"`
	Transport           string  `json:"transport,omitempty"`
	Remote              string  `json:"remote,omitempty"`
}

// Outbound is one request to a legacy client that is not answered yet.
type Outbound struct {
	Session    string  `json:"session"`
	ID         string  `json:"id"`
	Method     string  `json:"method"`
	RequestID  string  `json:"request_id,omitempty"` // the request on whose behalf it was sent
	Tool       string  `json:"tool,omitempty"`       // of that request
	TraceID    string  `json:"trace_id,omitempty"`   // of that request
	AgeSeconds float64 `json:"age_seconds"`
}

// Session is one open session or connection.
type Session struct {
	Session         string  `json:"session"`
	Transport       string  `json:"transport"`
	Remote          string  `json:"remote,omitempty"`
	Principal       string  `json:"principal,omitempty"` // cut to 64 bytes
	Tenant          string  `json:"tenant,omitempty"`
	Client          string  `json:"client,omitempty"`
	ClientVersion   string  `json:"client_version,omitempty"`
	ProtocolVersion string  `json:"protocol_version,omitempty"`
	AgeSeconds      float64 `json:"age_seconds"`
	IdleSeconds     float64 `json:"idle_seconds"`
	Requests        int     `json:"requests"`
	Streaming       bool    `json:"streaming,omitzero"` // it listens on its own stream
}

// Totals are the counters. At rest, admitted = sent + stored + the sum of dropped.
type Totals struct {
	Received  map[string]uint64 `json:"received"` // by kind
	Admitted  uint64            `json:"admitted"`
	Sent      uint64            `json:"sent"`
	Stored    uint64            `json:"stored"`
	Dropped   map[string]uint64 `json:"dropped"`   // by reason
	Cancelled map[string]uint64 `json:"cancelled"` // by cause
	Rejected  map[string]uint64 `json:"rejected"`  // by reason
	Abandoned map[string]uint64 `json:"abandoned"` // by cause
	Panics    uint64            `json:"panics"`
}

// Caller adds up what one caller has open. Callers are told apart by the principal
// (server.WithAuthenticator), by what the client says of itself, and by the address without
// the port. Only the principal is not the caller's own choice.
type Caller struct {
	Principal        string  `json:"principal,omitempty"` // cut to 64 bytes
	Client           string  `json:"client,omitempty"`
	Remote           string  `json:"remote,omitempty"`
	Requests         int     `json:"requests"` // in flight, without the subscriptions
	Queued           int     `json:"queued"`   // of them
	Subscriptions    int     `json:"subscriptions"`
	Sessions         int     `json:"sessions"`
	OldestAgeSeconds float64 `json:"oldest_age_seconds"` // of the requests
}

// Task is one handler that goes on as a task.
type Task struct {
	Task       string  `json:"task"` // the start of its id
	Tool       string  `json:"tool"`
	Principal  string  `json:"principal,omitempty"` // cut to 64 bytes
	AgeSeconds float64 `json:"age_seconds"`
	// LifeSeconds is what is left of its life.
	LifeSeconds         float64 `json:"life_seconds,omitzero"`
	CancelCause         string  `json:"cancel_cause,omitempty"`
	CancelledForSeconds float64 `json:"cancelled_for_seconds,omitzero"`
	Abandoned           bool    `json:"abandoned,omitzero"`
	TraceID             string  `json:"trace_id,omitempty"`
	SpanID              string  `json:"span_id,omitempty"`
}
