package telemetry

import (
	"cmp"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ReportTrace is one request that has ended. All durations are seconds. What a client
// says of itself is cut and fit to print, but not true for that.
type ReportTrace struct {
	ID    string `json:"id"`    // in this process: the n-th that was kept
	Class string `json:"class"` // why it was kept
	// At is when it arrived, Seconds how long after that its outcome was decided.
	At      time.Time `json:"at"`
	Seconds float64   `json:"seconds"`
	Method  string    `json:"method"`
	Tool    string    `json:"tool,omitempty"` // the registered tool or prompt
	// Outcome says what became of the answer: sent, stored, dropped, rejected, or "" if that
	// was not known when the handler was abandoned.
	Outcome      string `json:"outcome,omitempty"`
	ErrorType    string `json:"error_type,omitempty"` // if it counts as an error of the service
	ErrorCode    int    `json:"error_code,omitzero"`
	ErrorMessage string `json:"error_message,omitempty"`
	ToolError    bool   `json:"tool_error,omitzero"`
	// ArgumentFaults says what is wrong with arguments that break the tool's schema. Then
	// the tool error is the server's, and the handler was not called.
	ArgumentFaults string `json:"argument_faults,omitempty"`
	Panic          string `json:"panic,omitempty"`
	CancelCause    string `json:"cancel_cause,omitempty"`
	CancelDetail   string `json:"cancel_detail,omitempty"`
	// CancelledAfterSeconds is counted from its arrival.
	CancelledAfterSeconds float64 `json:"cancelled_after_seconds,omitzero"`
	DropReason            string  `json:"drop_reason,omitempty"`
	RejectReason          string  `json:"reject_reason,omitempty"`
	Abandoned             bool    `json:"abandoned,omitzero"`

	RequestID       string `json:"request_id"`
	Session         string `json:"session,omitempty"` // the start of its id, or the transport
	Client          string `json:"client,omitempty"`
	ClientVersion   string `json:"client_version,omitempty"`
	ProtocolVersion string `json:"protocol_version,omitempty"`
	Transport       string `json:"transport,omitempty"`
	Remote          string `json:"remote,omitempty"`
	RequestBytes    int    `json:"request_bytes,omitzero"`
	AnswerBytes     int    `json:"answer_bytes,omitzero"`
	TraceID         string `json:"trace_id,omitempty"`
	SpanID          string `json:"span_id,omitempty"`
	Sampled         bool   `json:"sampled,omitzero"`

	Phases []ReportPhase `json:"phases"`
}

// ReportPhase is one part of a request's life.
type ReportPhase struct {
	Phase string `json:"phase"` // queued, running, blocked (within running), writing
	// AfterSeconds is when it began, from the arrival. A blocked phase is all waits
	// together, and begins where the running does.
	AfterSeconds float64 `json:"after_seconds"`
	Seconds      float64 `json:"seconds"`
}

// ReportTraceDetail is a request that has ended and, if its trace is sampled, the spans
// of that trace that have ended in this process and were kept.
type ReportTraceDetail struct {
	ReportTrace
	Spans        []ReportSpan `json:"spans"` // by their start
	SpansLeftOut int          `json:"spans_left_out,omitzero"`
}

// ReportSpan is one span.
type ReportSpan struct {
	SpanID string `json:"span_id"`
	Parent string `json:"parent,omitempty"`
	Name   string `json:"name"`
	Kind   string `json:"kind"`
	// AfterSeconds is counted from the arrival of the request; other requests of the same
	// trace may have been there before.
	AfterSeconds float64           `json:"after_seconds"`
	Seconds      float64           `json:"seconds"`
	Status       string            `json:"status"` // Unset, Ok, Error
	StatusText   string            `json:"status_text,omitempty"`
	Attributes   []ReportAttribute `json:"attributes,omitempty"`
	Events       []ReportSpanEvent `json:"events,omitempty"`
}

// ReportAttribute is an attribute of a span.
type ReportAttribute struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// ReportSpanEvent is an event of a span.
type ReportSpanEvent struct {
	Name         string  `json:"name"`
	AfterSeconds float64 `json:"after_seconds"` // from the arrival of the request
	Text         string  `json:"text,omitempty"`
}

// ReportTraces is what the traces handler answers with.
type ReportTraces struct {
	At time.Time `json:"at"`
	// Kept counts all that are kept, by class.
	Kept   map[string]int `json:"kept"`
	Traces []ReportTrace  `json:"traces"` // the newest first
}

// TracesHandler serves requests that have ended, from memory. A bounded ring keeps of
// each class the latest: abandoned, panic, cancelled, dropped, rejected, error,
// caller_error, and of the ordinary ones the slowest of each method and target and one a
// second of each. It needs neither an exporter nor a sampled trace.
//
// Without a path value "id" it answers with [ReportTraces]; the query may choose a class
// and a method and set a limit (100, at most 1000). With one it answers with
// [ReportTraceDetail]; the id is that of a trace in the list, or a trace id, which stands
// for the latest request of that trace. Both are JSON, or text as with
// [Telemetry.RequestsHandler].
func (t *Telemetry) TracesHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !readOnly(w, req) {
			return
		}
		if id := req.PathValue("id"); id != "" {
			t.serveTrace(w, req, id)
			return
		}
		rep, err := t.traces(req.URL.Query())
		if err != "" {
			http.Error(w, err, http.StatusBadRequest)
			return
		}
		write(w, req, rep)
	})
}

// kept returns all that is kept, the newest first.
func (t *Telemetry) kept() []*keptTrace {
	if t.observed == nil {
		return nil
	}
	list := t.observed.recent.all()
	slices.SortFunc(list, func(a, b *keptTrace) int { return cmp.Compare(b.seq, a.seq) })
	return list
}

const (
	defaultTraces = 100
	maxTraces     = 1000
)

func (t *Telemetry) traces(query map[string][]string) (rep *ReportTraces, fault string) {
	value := func(name string) string {
		if v := query[name]; len(v) > 0 {
			return v[0]
		}
		return ""
	}
	class, method, limit := value("class"), value("method"), defaultTraces
	if class != "" && !slices.Contains(recentClasses(), class) {
		return nil, "there is no such class"
	}
	if text := value("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, "limit: want a positive whole number"
		}
		limit = min(n, maxTraces)
	}
	rep = &ReportTraces{At: time.Now(), Kept: map[string]int{}, Traces: []ReportTrace{}}
	if t.observed != nil {
		rep.Kept = t.observed.recent.counts()
	}
	for _, k := range t.kept() {
		if len(rep.Traces) == limit {
			break
		}
		if (class == "" || class == k.row.Class) && (method == "" || method == k.row.Method) {
			rep.Traces = append(rep.Traces, k.report())
		}
	}
	return rep, ""
}

func (k *keptTrace) report() ReportTrace {
	row := k.row
	row.ID = strconv.FormatUint(k.seq, 10)
	return row
}

func (t *Telemetry) serveTrace(w http.ResponseWriter, req *http.Request, id string) {
	for _, k := range t.kept() {
		row := k.report()
		if row.ID != id && row.TraceID != id {
			continue
		}
		spans, leftOut := t.observed.recent.spans.of(k.spans)
		detail := &ReportTraceDetail{ReportTrace: row, Spans: []ReportSpan{}, SpansLeftOut: leftOut}
		for i := range spans {
			detail.Spans = append(detail.Spans, spans[i].report(row.At))
		}
		slices.SortStableFunc(detail.Spans, func(a, b ReportSpan) int { return cmp.Compare(a.AfterSeconds, b.AfterSeconds) })
		write(w, req, detail)
		return
	}
	http.Error(w, "this request is not kept, or not any more", http.StatusNotFound)
}

func (s *keptSpan) report(arrived time.Time) ReportSpan {
	row := ReportSpan{
		SpanID: s.id.String(), Name: s.name, Kind: s.kind.String(), AfterSeconds: s.start.Sub(arrived).Seconds(),
		Seconds: s.end.Sub(s.start).Seconds(), Status: s.status.String(), StatusText: s.statusText,
	}
	if s.parent.IsValid() {
		row.Parent = s.parent.String()
	}
	for _, a := range s.attributes {
		row.Attributes = append(row.Attributes, ReportAttribute{a.key, a.value})
	}
	for _, e := range s.events {
		row.Events = append(row.Events, ReportSpanEvent{e.name, e.at.Sub(arrived).Seconds(), e.text})
	}
	return row
}

// readOnly answers what is neither GET nor HEAD.
func readOnly(w http.ResponseWriter, req *http.Request) bool {
	if req.Method == http.MethodGet || req.Method == http.MethodHead {
		return true
	}
	w.Header().Set("Allow", "GET, HEAD")
	http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	return false
}

// write answers with a page, as text or as JSON.
func write(w http.ResponseWriter, req *http.Request, page interface{ writeText(io.Writer) }) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Add("Vary", "Accept")
	if WantsText(req) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		page.writeText(w)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	// An error is the reader's going away; there is nobody left to tell.
	_ = json.MarshalWrite(w, page, json.Deterministic(true), jsontext.WithIndent("  "), jsontext.AllowInvalidUTF8(true))
}
