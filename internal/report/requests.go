package report

import (
	"fmt"
	"time"
)

// Requests is the page /debug/requests: a consistent copy of the live set. All durations are in
// seconds. Texts of clients are cut and printable, but may be untrue.
type Requests struct {
	At time.Time `json:"at"`
	// Replica is the name of this replica among those with the same store, or "".
	Replica string `json:"replica,omitempty"`
	// Readiness is nil before the first probe.
	Readiness *Readiness `json:"readiness,omitempty"`
	// InFlight counts the requests by state. It has every state.
	InFlight         map[string]int `json:"in_flight"`
	OldestAgeSeconds float64        `json:"oldest_age_seconds"`
	// Callers are the callers with the most requests in flight, at most 20, the busiest first.
	// CallersLeftOut counts the others.
	Callers        []Caller `json:"callers"`
	CallersLeftOut int      `json:"callers_left_out,omitzero"`
	// Shares are the limits that callers share, of which somebody has something.
	Shares []Share `json:"shares"`
	// Classes are the concurrency classes of the program, by name.
	Classes  []Class   `json:"classes,omitempty"`
	Requests []Request `json:"requests"` // oldest first, without the subscriptions
	// Subscriptions are the open subscriptions. They have no deadline.
	Subscriptions []Request `json:"subscriptions"` // oldest first
	// Tasks are the handlers that run as tasks. TaskStatus counts the stored tasks by status, if
	// there is a server with tasks.
	Tasks      []Task         `json:"tasks"` // oldest first
	TaskStatus map[string]int `json:"task_status,omitempty"`
	// Outbound are our requests to clients that are not answered yet. Questions has the sums of all,
	// by method, client and version.
	Outbound   []Outbound  `json:"outbound"` // oldest first
	Questions  []Question  `json:"questions"`
	Sessions   []Session   `json:"sessions"` // oldest first
	RateLimits []RateLimit `json:"rate_limits,omitempty"`
	// StoredEvents are the events that are kept to resume streams, if a server keeps them in memory.
	StoredEvents *EventsHeld `json:"stored_events,omitempty"`
	// EndedStreams are the event streams that ended last, the newest first. Disconnects says how old
	// exchanges were whose peers have left in the last ten minutes.
	EndedStreams []EndedStream `json:"ended_streams"`
	Disconnects  Disconnects   `json:"disconnects"`
	// Registrations are the items with the most changes, at most 20.
	Registrations []Registration `json:"registrations,omitempty"`
	Totals        Totals         `json:"totals"` // since the start
}

// RateLimit is one rate limit of the program.
type RateLimit struct {
	Name string `json:"name"`
	// Used is the share of its tokens that the emptiest bucket has given, from 0 to 1.
	Used    float64 `json:"used"`
	Allowed uint64  `json:"allowed"` // messages since the start
	Refused uint64  `json:"refused"`
	Buckets int     `json:"buckets"` // callers, or other values, that it tells apart now
	// Local counts those of them that this replica has decided alone, because the store of all replicas did not
	// answer.
	Local uint64 `json:"local,omitzero"`
}

// Class is one concurrency class of the program.
type Class struct {
	Class  string `json:"class"`
	Limit  int    `json:"limit"`  // handlers that may run at once
	InUse  int    `json:"in_use"` // of the limit
	Queued int    `json:"queued"` // requests that wait for a slot
}

// Share is what callers have of one limit that they share (docs/limits.md).
type Share struct {
	Limit   string `json:"limit"`
	Size    int    `json:"size"`
	Used    int    `json:"used"`
	Holding int    `json:"holding"`          // callers that have something of it
	Waiting int    `json:"waiting"`          // callers that wait for something
	Largest int    `json:"largest"`          // how much the largest caller holds
	Caller  string `json:"caller,omitempty"` // that caller: a principal, an address or a connection
}

// Request is one request in flight.
type Request struct {
	Key     string `json:"key,omitempty"`     // for /debug/actions/: unique in this process
	Session string `json:"session,omitempty"` // the start of its id, or the transport
	ID      string `json:"id"`
	Method  string `json:"method"`
	Tool    string `json:"tool,omitempty"` // the registered tool or prompt
	State   string `json:"state"`          // queued, running, blocked, writing, cancelled, listening
	// In is the middleware that the request is in now, as "middleware" and its name, or "handler".
	In string `json:"in,omitempty"`
	// ConcurrencyClass is the class of the program whose slots the request needs.
	ConcurrencyClass string  `json:"concurrency_class,omitempty"`
	AgeSeconds       float64 `json:"age_seconds"`
	// DeadlineSeconds is the time until the deadline. It is negative after the deadline, and
	// absent without one.
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
	// Via and ForwardedFor are what trusted proxies say of the way of the request.
	Via          string `json:"via,omitempty"`
	ForwardedFor string `json:"forwarded_for,omitempty"`
}

// Outbound is one request to a legacy client that is not answered yet.
type Outbound struct {
	Session       string  `json:"session"`
	ID            string  `json:"id"`
	Method        string  `json:"method"`
	Client        string  `json:"client,omitempty"`
	ClientVersion string  `json:"client_version,omitempty"`
	RequestID     string  `json:"request_id,omitempty"` // the request that caused it
	Tool          string  `json:"tool,omitempty"`       // of that request
	TraceID       string  `json:"trace_id,omitempty"`   // of that request
	AgeSeconds    float64 `json:"age_seconds"`
}

// Session is one open session or connection.
type Session struct {
	Key             string  `json:"key,omitempty"` // for /debug/actions/: unique in this process
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
	Streaming       bool    `json:"streaming,omitzero"` // the client listens on the stream of the session
}

// Totals has the counters. When no request is in flight, admitted = sent + stored + the sum of
// dropped.
type Totals struct {
	Received  map[string]uint64 `json:"received"` // by kind
	Admitted  uint64            `json:"admitted"`
	Sent      uint64            `json:"sent"`
	Stored    uint64            `json:"stored"`
	Dropped   map[string]uint64 `json:"dropped"`            // by reason
	Cancelled map[string]uint64 `json:"cancelled"`          // by cause
	Rejected  map[string]uint64 `json:"rejected"`           // by reason
	Notified  map[string]uint64 `json:"notifications_sent"` // by method
	Abandoned map[string]uint64 `json:"abandoned"`          // by cause
	Panics    uint64            `json:"panics"`
}

// Caller has the sums of one caller. A caller is identified by its principal
// (server.WithAuthenticator), the name of its client, and its address without the port. A caller
// can choose all of these except the principal.
type Caller struct {
	Principal        string  `json:"principal,omitempty"` // cut to 64 bytes
	Client           string  `json:"client,omitempty"`
	ClientVersion    string  `json:"client_version,omitempty"`
	Remote           string  `json:"remote,omitempty"`
	Requests         int     `json:"requests"` // in flight, without the subscriptions
	Queued           int     `json:"queued"`   // of them
	Subscriptions    int     `json:"subscriptions"`
	Sessions         int     `json:"sessions"`
	OldestAgeSeconds float64 `json:"oldest_age_seconds"` // of the requests
}

// Task is one handler that runs as a task.
type Task struct {
	Task      string `json:"task"` // the start of its id
	Tool      string `json:"tool"`
	Status    string `json:"status,omitempty"`    // that clients are told: working, input_required; or an end, while the handler still runs
	Run       int    `json:"run,omitzero"`        // which run of its handler it is, if not the first one
	Principal string `json:"principal,omitempty"` // cut to 64 bytes
	// Client and ClientVersion are those of the call that has become the task.
	Client        string  `json:"client,omitempty"`
	ClientVersion string  `json:"client_version,omitempty"`
	AgeSeconds    float64 `json:"age_seconds"`
	// LifeSeconds is the rest of its time to live.
	LifeSeconds         float64 `json:"life_seconds,omitzero"`
	CancelCause         string  `json:"cancel_cause,omitempty"`
	CancelledForSeconds float64 `json:"cancelled_for_seconds,omitzero"`
	Abandoned           bool    `json:"abandoned,omitzero"`
	TraceID             string  `json:"trace_id,omitempty"`
	SpanID              string  `json:"span_id,omitempty"`
}

// name returns the name of the task in the text.
func (t *Task) name() string {
	if t.Run > 1 {
		return fmt.Sprintf("%s (run %d)", t.Task, t.Run)
	}
	return t.Task
}
