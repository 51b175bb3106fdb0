package telemetry

import (
	"net/http"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/order"
	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/telemetry/state"
)

// oldestEvent returns the age of the oldest event in seconds.
func oldestEvent(held *state.Events, now time.Time) float64 {
	if held == nil || held.Oldest.IsZero() {
		return 0
	}
	return max(0, now.Sub(held.Oldest).Seconds())
}

// An eventHolder is the [Origin] of a session that may have events in memory. It is asked when somebody
// looks at /debug/events.
type eventHolder interface{ EventsHeld() state.Events }

// EventsHandler serves GET /debug/events: what servers keep to resume the streams of legacy HTTP clients, and
// which sessions and clients have most of it. It is JSON, or text as with [Telemetry.RequestsHandler].
func (t *Telemetry) EventsHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if readOnly(w, req) {
			report.Write(w, req, t.reportEvents())
		}
	})
}

func (t *Telemetry) reportEvents() *report.Events {
	rep := &report.Events{At: t.now(), Expired: map[string]uint64{}, Failures: map[string]uint64{}, Lost: []report.LostAnswer{}}
	var sessions []report.EventHolder
	clients := map[report.EventHolder]*report.EventHolder{}
	for _, snap := range t.snapshots() {
		rep.Fetched += snap.Counters.ResponsesFetched
		addCounts(rep.Expired, snap.Counters.ResponsesExpired)
		addCounts(rep.Failures, snap.Counters.EventFailures)
		if snap.Events != nil {
			rep.Bytes, rep.Events = rep.Bytes+snap.Events.Bytes, rep.Events+snap.Events.Events
			rep.OldestAgeSeconds = max(rep.OldestAgeSeconds, oldestEvent(snap.Events, snap.At))
			rep.MaxBytes += shareSize(snap, limits.NameEventBytesTotal)
		}
		rep.Lost = append(rep.Lost, lostAnswers(snap)...)
		for i := range snap.Sessions {
			row, holds := t.holderOf(&snap.Sessions[i], snap.At)
			if !holds {
				continue
			}
			sessions = append(sessions, row)
			rep.Streams, rep.Answers = rep.Streams+row.Streams, rep.Answers+row.Answers
			who := report.EventHolder{Client: row.Client, ClientVersion: row.ClientVersion, Principal: row.Principal}
			if clients[who] == nil {
				client := who
				clients[who] = &client
			}
			clients[who].Add(row.EventsHeld)
			clients[who].Sessions++
		}
	}
	order.By(rep.Lost, func(a, b *report.LostAnswer) bool { return a.At.After(b.At) })
	rep.Sessions = len(sessions)
	rep.BySession, rep.OtherSessions = report.LargestHolders(sessions, rep.Bytes)
	rows := make([]report.EventHolder, 0, len(clients))
	for _, row := range clients {
		rows = append(rows, *row)
	}
	order.By(rows, func(a, b *report.EventHolder) bool {
		return a.Client+a.ClientVersion+a.Principal < b.Client+b.ClientVersion+b.Principal
	})
	rep.ByClient, rep.OtherClients = report.LargestHolders(rows, rep.Bytes)
	return rep
}

// lostAnswers describes the expired answers of a snapshot, newest first.
func lostAnswers(snap *Snapshot) []report.LostAnswer {
	list := make([]report.LostAnswer, 0, len(snap.Expired))
	for _, a := range slices.Backward(snap.Expired) {
		row := report.LostAnswer{
			At: a.ExpiredAt, StoredSeconds: a.ExpiredAt.Sub(a.StoredAt).Seconds(), Reason: string(a.Reason), Method: a.Method, Target: a.Target,
			ID: a.ID, Session: a.Session, Client: a.Client, ClientVersion: a.ClientVersion, Principal: a.Principal,
		}
		if span := trace.SpanContextFromContext(a.Context); span.IsValid() {
			row.TraceID = span.TraceID().String()
		}
		list = append(list, row)
	}
	return list
}

// holderOf describes a session, and whether it has events or answers.
func (t *Telemetry) holderOf(s *SessionState, now time.Time) (row report.EventHolder, holds bool) {
	var held state.Events
	if holder, ok := s.Origin.(eventHolder); ok {
		held = holder.EventsHeld()
	}
	if held.Events == 0 && s.Stored == 0 {
		return row, false
	}
	info := s.Origin.Describe()
	row = report.EventHolder{
		EventsHeld: report.EventsHeld{
			Bytes: held.Bytes, Events: held.Events, Streams: held.Streams, Answers: s.Stored, OldestAgeSeconds: oldestEvent(&held, now),
		},
		Sessions: 1, Key: keyText("s", s.Key), Session: info.sessionName(), Remote: info.RemoteAddr,
		Principal: logline.Printable(info.Principal.String(), maxName),
	}
	row.Client, row.ClientVersion = info.client(t.clients)
	return row, true
}

// addStored adds what a server keeps to the page of requests.
func addStored(rep *report.Requests, snap *Snapshot) {
	if snap.Events == nil {
		return
	}
	if rep.StoredEvents == nil {
		rep.StoredEvents = &report.EventsHeld{}
	}
	held := report.EventsHeld{Bytes: snap.Events.Bytes, Events: snap.Events.Events, OldestAgeSeconds: oldestEvent(snap.Events, snap.At)}
	for i := range snap.Sessions {
		held.Answers += snap.Sessions[i].Stored
	}
	rep.StoredEvents.Add(held)
}

// shareSize returns the size of a limit that callers share.
func shareSize(snap *Snapshot, limit string) int {
	for i := range snap.Shares {
		if snap.Shares[i].Limit == limit {
			return snap.Shares[i].Size
		}
	}
	return 0
}
