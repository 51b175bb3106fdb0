package telemetry

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// Report is what the requests handler answers with: a consistent copy of all that
// is in flight. All durations are seconds. What a client says of itself is cut and
// fit to print, but not true for that.
type Report struct {
	At time.Time `json:"at"`
	// InFlight counts the requests by state; every state is there.
	InFlight         map[string]int `json:"in_flight"`
	OldestAgeSeconds float64        `json:"oldest_age_seconds"`
	// Callers are those that have most requests in flight, at most 20, the busiest first;
	// CallersLeftOut counts the others.
	Callers        []ReportCaller  `json:"callers"`
	CallersLeftOut int             `json:"callers_left_out,omitzero"`
	Requests       []ReportRequest `json:"requests"` // oldest first, without the subscriptions
	// Subscriptions are the requests that stay open. They have no deadline.
	Subscriptions []ReportRequest `json:"subscriptions"` // oldest first
	// Tasks are the handlers that run as tasks, TaskStatus counts the tasks that are kept by
	// their status, if there is a server with tasks.
	Tasks      []ReportTask   `json:"tasks"` // oldest first
	TaskStatus map[string]int `json:"task_status,omitempty"`
	// Outbound holds our requests to clients that are not answered yet.
	Outbound []ReportOutbound `json:"outbound"` // oldest first
	Sessions []ReportSession  `json:"sessions"` // oldest first
	Totals   ReportTotals     `json:"totals"`   // since the start
}

// ReportRequest is one request in flight.
type ReportRequest struct {
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
	Client              string  `json:"client,omitempty"`
	ClientVersion       string  `json:"client_version,omitempty"`
	ProtocolVersion     string  `json:"protocol_version,omitempty"`
	Transport           string  `json:"transport,omitempty"`
	Remote              string  `json:"remote,omitempty"`
}

// ReportOutbound is one request to a legacy client that is not answered yet.
type ReportOutbound struct {
	Session    string  `json:"session"`
	ID         string  `json:"id"`
	Method     string  `json:"method"`
	RequestID  string  `json:"request_id,omitempty"` // the request on whose behalf it was sent
	Tool       string  `json:"tool,omitempty"`       // of that request
	TraceID    string  `json:"trace_id,omitempty"`   // of that request
	AgeSeconds float64 `json:"age_seconds"`
}

// ReportSession is one open session or connection.
type ReportSession struct {
	Session         string  `json:"session"`
	Transport       string  `json:"transport"`
	Remote          string  `json:"remote,omitempty"`
	Client          string  `json:"client,omitempty"`
	ClientVersion   string  `json:"client_version,omitempty"`
	ProtocolVersion string  `json:"protocol_version,omitempty"`
	AgeSeconds      float64 `json:"age_seconds"`
	IdleSeconds     float64 `json:"idle_seconds"`
	Requests        int     `json:"requests"`
	Streaming       bool    `json:"streaming,omitzero"` // it listens on its own stream
}

// ReportTotals are the counters. At rest, admitted = sent + stored + the sum of dropped.
type ReportTotals struct {
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

// RequestsHandler serves GET /debug/requests: a [Report] of all sources as JSON,
// or as text for a person if the Accept header prefers text/plain or the query has
// format=text. Taking the report does not stop the servers.
func (t *Telemetry) RequestsHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if readOnly(w, req) {
			write(w, req, t.report())
		}
	})
}

// WantsText reports whether a request for a report asks for text, by ?format=text or by
// its Accept header, and not for JSON.
func WantsText(req *http.Request) bool {
	switch req.URL.Query().Get("format") {
	case "text":
		return true
	case "json":
		return false
	}
	accept := req.Header.Get("Accept")
	text, js := strings.Index(accept, "text/plain"), strings.Index(accept, "application/json")
	return text >= 0 && (js < 0 || text < js)
}

// report renders a snapshot of each source, outside of any lock of theirs.
func (t *Telemetry) report() *Report {
	snaps := t.snapshots()
	rep := &Report{
		At: t.now(), InFlight: map[string]int{}, Requests: []ReportRequest{}, Subscriptions: []ReportRequest{},
		Tasks: []ReportTask{}, Outbound: []ReportOutbound{}, Sessions: []ReportSession{},
		Totals: ReportTotals{
			Received: map[string]uint64{}, Dropped: zeroed(mcp.ResponseDropReasons()), Cancelled: zeroed(mcp.Causes()),
			Rejected: zeroed(mcp.RejectReasons()), Abandoned: zeroed(mcp.Causes()),
		},
	}
	for _, state := range session.States() {
		rep.InFlight[state] = 0
	}
	by := callers{}
	for _, snap := range snaps {
		rep.OldestAgeSeconds = max(rep.OldestAgeSeconds, snap.OldestAge().Seconds())
		for i := range snap.Requests {
			rep.InFlight[snap.Requests[i].State]++
			row := reportRequest(&snap.Requests[i], snap.At)
			by.addRequest(&snap.Requests[i], row.Client)
			rep.Requests = append(rep.Requests, row)
		}
		for i := range snap.Subscriptions {
			rep.InFlight[snap.Subscriptions[i].State]++
			row := reportRequest(&snap.Subscriptions[i], snap.At)
			row.DeadlineSeconds = 0
			by.addSubscription(&snap.Subscriptions[i], row.Client)
			rep.Subscriptions = append(rep.Subscriptions, row)
		}
		for i := range snap.Detached {
			rep.Tasks = append(rep.Tasks, reportTask(&snap.Detached[i]))
		}
		for status, n := range snap.Tasks {
			if rep.TaskStatus == nil {
				rep.TaskStatus = map[string]int{}
			}
			rep.TaskStatus[string(status)] += n
		}
		for i := range snap.Outbound {
			rep.Outbound = append(rep.Outbound, reportOutbound(&snap.Outbound[i]))
		}
		for i := range snap.Sessions {
			row := reportSession(&snap.Sessions[i])
			by.addSession(&snap.Sessions[i], row.Client)
			rep.Sessions = append(rep.Sessions, row)
		}
		rep.Totals.add(&snap.Counters)
	}
	rep.Callers, rep.CallersLeftOut = by.top()
	for _, list := range [][]ReportRequest{rep.Requests, rep.Subscriptions} {
		slices.SortFunc(list, func(a, b ReportRequest) int { return cmp.Compare(b.AgeSeconds, a.AgeSeconds) })
	}
	slices.SortFunc(rep.Tasks, func(a, b ReportTask) int { return cmp.Compare(b.AgeSeconds, a.AgeSeconds) })
	slices.SortFunc(rep.Outbound, func(a, b ReportOutbound) int { return cmp.Compare(b.AgeSeconds, a.AgeSeconds) })
	slices.SortFunc(rep.Sessions, func(a, b ReportSession) int { return cmp.Compare(b.AgeSeconds, a.AgeSeconds) })
	return rep
}

func reportRequest(info *session.RequestInfo, now time.Time) ReportRequest {
	r := info.Request
	row := ReportRequest{
		ID: session.Printable(r.ID.String(), maxText), Method: session.Printable(r.Method, maxName),
		Tool: r.Route.Series.Target, State: info.State,
		AgeSeconds: info.Age.Seconds(), DeadlineSeconds: r.Deadline().Sub(now).Seconds(),
		Abandoned: info.Abandoned, ProtocolVersion: session.Printable(string(versionOf(r.Inbound, r.Session())), maxName),
	}
	if info.Cancel != nil {
		row.CancelCause, row.CancelDetail = string(info.Cancel.Cause), info.Cancel.Detail
		row.CancelledForSeconds = info.CancelFor.Seconds()
	}
	if sc := spanContext(r); sc.IsValid() {
		row.TraceID, row.SpanID = sc.TraceID().String(), sc.SpanID().String()
	}
	row.Client, row.ClientVersion = session.ClientOf(r.Inbound, r.Session())
	if s := r.Session(); s != nil {
		row.Session = s.LogID()
	}
	if r.Conn != nil {
		row.Transport, row.Remote = r.Conn.Transport, r.Conn.RemoteAddr
	}
	return row
}

func reportOutbound(info *session.OutboundInfo) ReportOutbound {
	row := ReportOutbound{
		Session: info.Session.LogID(), ID: info.ID.String(), Method: info.Method, AgeSeconds: info.Age.Seconds(),
	}
	if r := info.Request; r != nil {
		row.RequestID, row.Tool = session.Printable(r.ID.String(), maxText), r.Route.Series.Target
		if sc := spanContext(r); sc.IsValid() {
			row.TraceID = sc.TraceID().String()
		}
	}
	return row
}

func reportSession(info *session.SessionInfo) ReportSession {
	conn := info.Session.Conn()
	row := ReportSession{
		Session: info.Session.LogID(), Transport: conn.Transport, Remote: conn.RemoteAddr,
		AgeSeconds: info.Age.Seconds(), IdleSeconds: info.Idle.Seconds(), Requests: info.Requests, Streaming: info.Streaming,
	}
	if p := info.Peer; p != nil {
		row.Client = session.Printable(p.Client.Name, maxName)
		row.ClientVersion = session.Printable(p.Client.Version, maxName)
		row.ProtocolVersion = string(p.Version)
	}
	return row
}

func (t *ReportTotals) add(c *session.Counters) {
	admitted, sent, stored, _ := c.Totals()
	t.Admitted, t.Sent, t.Stored = t.Admitted+admitted, t.Sent+sent, t.Stored+stored
	addCounts(t.Received, c.Received)
	addCounts(t.Rejected, c.Rejected)
	for i := range c.Series {
		s := &c.Series[i]
		t.Panics += s.Panics
		addCounts(t.Dropped, s.Dropped)
		addCounts(t.Cancelled, s.Cancelled)
		addCounts(t.Abandoned, s.Abandoned)
	}
}

func addCounts[K ~string](sum map[string]uint64, part map[K]uint64) {
	for k, n := range part {
		sum[string(k)] += n
	}
}

func zeroed[K ~string](keys []K) map[string]uint64 {
	m := make(map[string]uint64, len(keys))
	for _, k := range keys {
		m[string(k)] = 0
	}
	return m
}
