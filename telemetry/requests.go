package telemetry

import (
	"cmp"
	"net/http"
	"strconv"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/order"
	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/telemetry/state"
)

// RequestsHandler serves GET /debug/requests: the requests, tasks and sessions in flight. They are
// JSON, or text if the Accept header prefers text/plain or the query has format=text. With
// group=tool,client,state and the like it counts requests with the same texts in these fields
// together. The servers do not stop for it.
func (t *Telemetry) RequestsHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !readOnly(w, req) {
			return
		}
		text := req.URL.Query().Get("group")
		if text == "" {
			report.Write(w, req, t.report())
			return
		}
		fields, err := chosen(requestFields(), text)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		report.Write(w, req, groupedRequests(t.report(), fields))
	})
}

// report makes the page of one snapshot of each source. It holds no lock of the sources.
func (t *Telemetry) report() *report.Requests {
	snaps := t.snapshots()
	rep := &report.Requests{
		At: t.now(), InFlight: map[string]int{}, Requests: []report.Request{}, Subscriptions: []report.Request{},
		Tasks: []report.Task{}, Outbound: []report.Outbound{}, Sessions: []report.Session{},
		Totals: report.Totals{
			Received: map[string]uint64{}, Dropped: zeroed(mcp.ResponseDropReasons()), Cancelled: zeroed(mcp.Causes()),
			Rejected: zeroed(mcp.RejectReasons()), Notified: map[string]uint64{}, Abandoned: zeroed(mcp.Causes()),
		},
	}
	for _, name := range report.States() {
		rep.InFlight[name] = 0
	}
	rep.Shares = []report.Share{}
	by := callers{}
	for _, snap := range snaps {
		t.addSnapshot(rep, by, snap)
	}
	rep.Callers, rep.CallersLeftOut = by.top()
	rep.EndedStreams, rep.Disconnects = t.exchanges.report(rep.At)
	rep.Registrations = report.MostChanged(rep.Registrations)
	rep.Questions = t.questions.report(rep.Outbound, rep.At)
	order.By(rep.Classes, func(a, b *report.Class) bool { return a.Class < b.Class })
	order.By(rep.Requests, func(a, b *report.Request) bool { return a.AgeSeconds > b.AgeSeconds })
	order.By(rep.Subscriptions, func(a, b *report.Request) bool { return a.AgeSeconds > b.AgeSeconds })
	order.By(rep.Tasks, func(a, b *report.Task) bool { return a.AgeSeconds > b.AgeSeconds })
	order.By(rep.Outbound, func(a, b *report.Outbound) bool { return a.AgeSeconds > b.AgeSeconds })
	order.By(rep.Sessions, func(a, b *report.Session) bool { return a.AgeSeconds > b.AgeSeconds })
	return rep
}

// addSnapshot adds what a source reports, and its callers.
func (t *Telemetry) addSnapshot(rep *report.Requests, by callers, snap *Snapshot) {
	rep.Readiness = worse(snap.Readiness, rep.Readiness)
	rep.OldestAgeSeconds = max(rep.OldestAgeSeconds, snap.oldestAge().Seconds())
	for i := range snap.Shares {
		if s := &snap.Shares[i]; s.Used > 0 {
			rep.Shares = append(rep.Shares, reportShare(s))
		}
	}
	for _, c := range snap.Classes {
		rep.Classes = append(rep.Classes, report.Class{Class: c.Name, Limit: c.Limit, InUse: c.InUse, Queued: c.Queued})
	}
	for i := range snap.Requests {
		r := &snap.Requests[i]
		info := r.Origin.Describe()
		row := t.reportRequest(r, &info, snap.At)
		rep.InFlight[r.State]++
		by.addRequest(r, &info, row.Client, row.ClientVersion)
		rep.Requests = append(rep.Requests, row)
	}
	for i := range snap.Subscriptions {
		r := &snap.Subscriptions[i]
		info := r.Origin.Describe()
		row := t.reportRequest(r, &info, snap.At)
		row.DeadlineSeconds, row.In = 0, ""
		rep.InFlight[r.State]++
		by.of(&info, row.Client, row.ClientVersion).Subscriptions++
		rep.Subscriptions = append(rep.Subscriptions, row)
	}
	for i := range snap.Tasks {
		rep.Tasks = append(rep.Tasks, reportTask(&snap.Tasks[i]))
	}
	for status, n := range snap.TaskStatus {
		if rep.TaskStatus == nil {
			rep.TaskStatus = map[string]int{}
		}
		rep.TaskStatus[string(status)] += n
	}
	for i := range snap.Outbound {
		rep.Outbound = append(rep.Outbound, t.reportOutbound(&snap.Outbound[i]))
	}
	addStored(rep, snap)
	if snap.Store != nil {
		rep.Replica = snap.Store.Replica
	}
	for i := range snap.Sessions {
		info := snap.Sessions[i].Origin.Describe()
		row := t.reportSession(&snap.Sessions[i], &info)
		by.of(&info, row.Client, row.ClientVersion).Sessions++
		rep.Sessions = append(rep.Sessions, row)
	}
	for _, r := range snap.Registrations {
		rep.Registrations = append(rep.Registrations, report.Registration(r))
	}
	for _, limit := range snap.RateLimits {
		rep.RateLimits = append(rep.RateLimits, report.RateLimit(limit))
	}
	addTotals(&rep.Totals, &snap.Counters)
}

func (t *Telemetry) reportRequest(r *RequestState, info *Info, now time.Time) report.Request {
	row := report.Request{
		Key: keyText("r", r.Key), ID: logline.Printable(info.ID.String(), maxText), Method: logline.Printable(info.Method, maxName),
		Tool: info.Target, State: r.State, In: r.In, ConcurrencyClass: info.Class, AgeSeconds: r.Age.Seconds(), Abandoned: r.Abandoned,
		ProtocolVersion: logline.Printable(string(info.Version), maxName), Session: info.sessionName(),
		Transport: info.Transport, Remote: info.RemoteAddr, Via: info.Via, ForwardedFor: info.ForwardedFor,
		Principal: logline.Printable(info.Principal.String(), maxName), Tenant: logline.Printable(info.tenant(), maxName),
	}
	if !info.Deadline.IsZero() {
		row.DeadlineSeconds = info.Deadline.Sub(now).Seconds()
	}
	if r.Cancelled != nil {
		row.CancelCause, row.CancelDetail = string(r.Cancelled.Cause), r.Cancelled.Detail
		row.CancelledForSeconds = r.CancelledFor.Seconds()
	}
	row.TraceID, row.SpanID = spanIDs(r.Operation.SpanContext())
	row.Client, row.ClientVersion = info.client(t.clients)
	return row
}

// keyText returns the text of a key, with a letter for its kind.
func keyText(kind string, key uint64) string {
	if key == 0 {
		return ""
	}
	return kind + strconv.FormatUint(key, 10)
}

func reportShare(s *state.Share) report.Share {
	return report.Share{
		Limit: s.Limit, Size: s.Size, Used: s.Used, Holding: s.Holding, Waiting: s.Waiting, Largest: s.Largest,
		Caller: logline.Printable(s.Caller, maxName),
	}
}

func (t *Telemetry) reportOutbound(o *OutboundState) report.Outbound {
	row := report.Outbound{
		Session: o.Session, ID: o.ID.String(), Method: o.Method, AgeSeconds: o.Age.Seconds(),
		TraceID: o.Operation.TraceID(),
	}
	if o.Client != nil {
		info := o.Client.Describe()
		row.Client, row.ClientVersion = info.client(t.clients)
	}
	if o.For != nil {
		info := o.For.Describe()
		row.RequestID, row.Tool = logline.Printable(info.ID.String(), maxText), info.Target
	}
	return row
}

func (t *Telemetry) reportSession(s *SessionState, info *Info) report.Session {
	row := report.Session{
		Key: keyText("s", s.Key), Session: info.sessionName(), Transport: info.Transport, Remote: info.RemoteAddr, ProtocolVersion: string(info.Version),
		AgeSeconds: s.Age.Seconds(), IdleSeconds: s.Idle.Seconds(), Requests: s.Requests, Streaming: s.Streaming,
		Principal: logline.Printable(info.Principal.String(), maxName), Tenant: logline.Printable(info.tenant(), maxName),
	}
	row.Client, row.ClientVersion = info.client(t.clients)
	return row
}

func reportTask(t *state.Task) report.Task {
	row := report.Task{
		Task: t.Name, Tool: t.Tool, Status: string(t.Status), Principal: logline.Printable(t.Principal.String(), maxName), Client: t.Client, ClientVersion: t.ClientVersion,
		AgeSeconds: t.Age.Seconds(), LifeSeconds: t.Left.Seconds(), Abandoned: t.Abandoned,
	}
	if t.Run > 1 {
		row.Run = t.Run
	}
	row.TraceID, row.SpanID = spanIDs(t.Span)
	if t.Cancelled != nil {
		row.CancelCause, row.CancelledForSeconds = string(t.Cancelled.Cause), t.CancelledFor.Seconds()
	}
	return row
}

func addTotals(t *report.Totals, c *state.Counters) {
	addCounts(t.Received, c.Received)
	addCounts(t.Rejected, c.Rejected)
	addCounts(t.Notified, c.NotificationsSent)
	for i := range c.Series {
		s := &c.Series[i]
		t.Admitted, t.Sent, t.Stored = t.Admitted+s.Admitted, t.Sent+s.Sent, t.Stored+s.Stored
		t.Panics += s.Panics
		addCounts(t.Dropped, s.Dropped)
		for in, n := range s.Cancelled {
			t.Cancelled[string(in.Cause)] += n
		}
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

// maxCallers bounds the callers of a report.
const maxCallers = 20

// callers adds up requests, subscriptions and sessions by caller.
type callers map[callerKey]*report.Caller

// A callerKey identifies a caller. The principal is not cut.
type callerKey struct{ principal, client, version, remote string }

func (c callers) of(info *Info, client, version string) *report.Caller {
	key := callerKey{info.Principal.String(), client, version, report.Host(info.RemoteAddr)}
	row := c[key]
	if row == nil {
		row = &report.Caller{Principal: logline.Printable(key.principal, maxName), Client: client, ClientVersion: version, Remote: key.remote}
		c[key] = row
	}
	return row
}

func (c callers) addRequest(r *RequestState, info *Info, client, version string) {
	row := c.of(info, client, version)
	row.Requests++
	if r.State == report.StateQueued {
		row.Queued++
	}
	row.OldestAgeSeconds = max(row.OldestAgeSeconds, r.Age.Seconds())
}

// top returns the callers with the most requests, the busiest first. left is the number of the
// others.
func (c callers) top() (rows []report.Caller, left int) {
	rows = make([]report.Caller, 0, len(c))
	for _, row := range c {
		rows = append(rows, *row)
	}
	order.By(rows, func(a, b *report.Caller) bool {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(b.Sessions+b.Subscriptions, a.Sessions+a.Subscriptions),
			cmp.Compare(a.Principal, b.Principal), cmp.Compare(a.Client, b.Client), cmp.Compare(a.ClientVersion, b.ClientVersion), cmp.Compare(a.Remote, b.Remote)) < 0
	})
	if left = len(rows) - maxCallers; left > 0 {
		return rows[:maxCallers:maxCallers], left
	}
	return rows, 0
}

// readOnly reports whether a request is a GET or a HEAD. It answers all others with an error.
func readOnly(w http.ResponseWriter, req *http.Request) bool {
	if req.Method == http.MethodGet || req.Method == http.MethodHead {
		return true
	}
	w.Header().Set("Allow", "GET, HEAD")
	http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	return false
}
