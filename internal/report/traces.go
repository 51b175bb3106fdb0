package report

import "time"

// Trace is one request that has ended. All durations are in seconds. Texts of clients are cut and
// printable, but may be untrue.
type Trace struct {
	ID    string `json:"id"`    // a number, unique in this process
	Class string `json:"class"` // of recent traces
	// ConcurrencyClass is the class of the program whose slots the request needed.
	ConcurrencyClass string `json:"concurrency_class,omitempty"`
	// At is when it arrived. Seconds is the time from then to its outcome.
	At      time.Time `json:"at"`
	Seconds float64   `json:"seconds"`
	Method  string    `json:"method"`
	Tool    string    `json:"tool,omitempty"` // the registered tool or prompt
	// Outcome is what happened to the answer: sent, stored, dropped, rejected, or "" if that was
	// not known when the handler was abandoned.
	Outcome      string `json:"outcome,omitempty"`
	ErrorType    string `json:"error_type,omitempty"` // if it counts as an error of the service
	ErrorCode    int    `json:"error_code,omitzero"`
	ErrorMessage string `json:"error_message,omitempty"`
	ToolError    bool   `json:"tool_error,omitzero"`
	// ArgumentFaults says what is wrong with arguments that break the tool's schema. The tool
	// error is the server's then, and the handler was not called.
	ArgumentFaults string `json:"argument_faults,omitempty"`
	Panic          string `json:"panic,omitempty"`
	// Error is the handler's own error, which the caller may not know.
	Error string `json:"error,omitempty"`
	// Rule has decided whether the caller may do this. Decision is its effect: allow, deny,
	// need_scopes, or one of the latter after dry_run_.
	Rule           string `json:"rule,omitempty"`
	Decision       string `json:"decision,omitempty"`
	DecisionReason string `json:"decision_reason,omitempty"`

	CancelCause  string `json:"cancel_cause,omitempty"`
	CancelDetail string `json:"cancel_detail,omitempty"`
	// CancelledAfterSeconds is counted from its arrival.
	CancelledAfterSeconds float64 `json:"cancelled_after_seconds,omitzero"`
	SubscriptionEnd       string  `json:"subscription_end,omitempty"` // why a subscription has ended
	DropReason            string  `json:"drop_reason,omitempty"`
	RejectReason          string  `json:"reject_reason,omitempty"`
	Abandoned             bool    `json:"abandoned,omitzero"`

	RequestID       string `json:"request_id"`
	Session         string `json:"session,omitempty"`   // the start of its id, or the transport
	Principal       string `json:"principal,omitempty"` // cut to 64 bytes
	Tenant          string `json:"tenant,omitempty"`
	Client          string `json:"client,omitempty"`
	ClientVersion   string `json:"client_version,omitempty"`
	ProtocolVersion string `json:"protocol_version,omitempty"`
	Transport       string `json:"transport,omitempty"`
	Remote          string `json:"remote,omitempty"`
	Via             string `json:"via,omitempty"` // what trusted proxies say of its way
	ForwardedFor    string `json:"forwarded_for,omitempty"`
	RequestBytes    int    `json:"request_bytes,omitzero"`
	AnswerBytes     int    `json:"answer_bytes,omitzero"`
	TraceID         string `json:"trace_id,omitempty"`
	SpanID          string `json:"span_id,omitempty"`
	Sampled         bool   `json:"sampled,omitzero"`

	Phases []Phase `json:"phases"`
}

// Phase is one phase of a request.
type Phase struct {
	// Phase is queued, running, blocked (within running) or writing. The parts of running are
	// middleware, decode, handler and encode, each without the parts inside it.
	Phase string `json:"phase"`
	Name  string `json:"name,omitempty"` // of the middleware; "others" for those behind the eighth
	// AfterSeconds is the time from the arrival to its begin. A blocked phase is the sum of all
	// waits, and begins with the running phase. The parts of running are shown one after the
	// other, although a middleware may also work after the handler.
	AfterSeconds float64 `json:"after_seconds"`
	Seconds      float64 `json:"seconds"`
}

// TraceDetail is a request that has ended. If its trace is sampled, it has the buffered spans of that
// trace in this process.
type TraceDetail struct {
	Trace
	Spans        []Span `json:"spans"` // by their start
	SpansLeftOut int    `json:"spans_left_out,omitzero"`
	// Outgoing are the HTTP requests of the handler, by host and method.
	Outgoing []Outgoing `json:"outgoing,omitempty"`
	// Attempts counts the requests of this trace that are kept, this one included, and
	// AttemptsInFlight those in flight.
	Attempts         int `json:"attempts"`
	AttemptsInFlight int `json:"attempts_in_flight,omitzero"`
}

// Span is one span.
type Span struct {
	SpanID string `json:"span_id"`
	Parent string `json:"parent,omitempty"`
	Name   string `json:"name"`
	Kind   string `json:"kind"`
	// AfterSeconds is the time since the arrival of the request. It is negative for spans of
	// earlier requests of the same trace.
	AfterSeconds float64     `json:"after_seconds"`
	Seconds      float64     `json:"seconds"`
	Status       string      `json:"status"` // Unset, Ok, Error
	StatusText   string      `json:"status_text,omitempty"`
	Attributes   []Attribute `json:"attributes,omitempty"`
	Events       []SpanEvent `json:"events,omitempty"`
}

// Attribute is an attribute of a span.
type Attribute struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// SpanEvent is an event of a span.
type SpanEvent struct {
	Name         string  `json:"name"`
	AfterSeconds float64 `json:"after_seconds"` // from the arrival of the request
	Text         string  `json:"text,omitempty"`
}

// Traces is the page /debug/traces.
type Traces struct {
	At time.Time `json:"at"`
	// Kept counts all recent traces by class.
	Kept map[string]int `json:"kept"`
	// Full are the classes with as many traces as there may be (recent_traces): older ones are gone.
	Full   []string `json:"full,omitempty"`
	Traces []Trace  `json:"traces"` // the newest first
}
