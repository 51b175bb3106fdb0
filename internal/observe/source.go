package observe

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/telemetry"
	"github.com/vitrine-mcp/vitrine/telemetry/state"
)

// A Source is a [telemetry.Source] of a function that takes snapshots of a core.
type Source func() *session.Snapshot

// Snapshot implements [telemetry.Source].
func (s Source) Snapshot() *telemetry.Snapshot {
	snap := s()
	out := &telemetry.Snapshot{
		At: snap.At, Requests: requests(snap.Requests), Subscriptions: requests(snap.Subscriptions), TaskStatus: snap.Tasks, TasksUnstored: snap.TasksUnstored, Readiness: state.Readiness(snap.Readiness),
		Tasks: make([]state.Task, len(snap.Detached)), Outbound: make([]telemetry.OutboundState, len(snap.Outbound)),
		Sessions: make([]telemetry.SessionState, len(snap.Sessions)), Counters: counters(&snap.Counters),
	}
	out.Saturated, out.Auth, out.Turns, out.Classes = snap.Saturated, snap.Auth, snap.Turns, snap.Classes
	if snap.Events != nil {
		held := state.Events(*snap.Events)
		out.Events = &held
	}
	for _, a := range snap.Expired {
		out.Expired = append(out.Expired, a)
	}
	out.Streaming = snap.Streaming
	if snap.Store != nil {
		out.Store = storeState(snap.Store)
	}
	for i := range snap.Shares {
		out.Shares = append(out.Shares, shareState(&snap.Shares[i]))
	}
	for _, r := range snap.Registrations {
		out.Registrations = append(out.Registrations, state.Registration(r))
	}
	out.ListChanges = map[string]map[string]uint64{}
	for change, n := range snap.ListChanges {
		nest(out.ListChanges, strings.ReplaceAll(change.Kind, " ", "_"), change.Change, n)
	}
	for _, r := range snap.Rates {
		out.RateLimits = append(out.RateLimits, state.RateLimit(r))
	}
	for i := range snap.Detached {
		info := &snap.Detached[i]
		client, version := info.Detached.Client()
		out.Tasks[i] = state.Task{
			Client: client, ClientVersion: version, Status: info.Detached.Status(),
			Tool: info.Detached.Series.Target, Name: info.Detached.Name, Run: info.Detached.Run, Age: info.Age, Left: info.Left, Principal: info.Detached.Principal,
			Cancelled: info.Cancel, CancelledFor: info.CancelFor, Abandoned: info.Abandoned,
			Span: trace.SpanContextFromContext(info.Detached.Context()),
		}
	}
	for i := range snap.Outbound {
		out.Outbound[i] = outboundState(&snap.Outbound[i])
	}
	for i := range snap.Sessions {
		info := &snap.Sessions[i]
		out.Sessions[i] = telemetry.SessionState{
			Origin: (*sessionOrigin)(info), Key: info.Session.Key(), Transport: info.Session.Conn().Transport, Age: info.Age, Idle: info.Idle,
			Requests: info.Requests, Streaming: info.Streaming, Stored: info.Stored,
		}
	}
	return out
}

func shareState(info *session.ShareInfo) state.Share {
	row := state.Share{
		Limit: info.Limit, Size: info.Size, Used: info.Used, Holding: info.Holders, Waiting: info.Waiting, Largest: info.Largest,
	}
	if info.Largest > 0 {
		row.Caller = info.Caller.String()
	}
	return row
}

func outboundState(info *session.OutboundInfo) telemetry.OutboundState {
	row := telemetry.OutboundState{
		Session: info.Session.LogID(), Client: (*peerOrigin)(info.Session), ID: info.ID, Method: info.Method, Age: info.Age,
	}
	if info.Request != nil {
		row.For, row.Operation = (*origin)(info.Request), operation(info.Request)
	}
	return row
}

// sessionOrigin is a session of a snapshot.
type sessionOrigin session.SessionInfo

// Describe implements [telemetry.Origin].
func (o *sessionOrigin) Describe() telemetry.Info { return describeSession(o.Session, o.Peer) }

// EventsHeld is asked for /debug/events, see [telemetry.SessionState].
func (o *sessionOrigin) EventsHeld() state.Events {
	return state.Events(o.Session.EventsHeld())
}

// peerOrigin is the session of a request to a client.
type peerOrigin session.Session

// Describe implements [telemetry.Origin].
func (o *peerOrigin) Describe() telemetry.Info {
	s := (*session.Session)(o)
	return describeSession(s, s.Peer())
}

func requests(infos []session.RequestInfo) []telemetry.RequestState {
	rows := make([]telemetry.RequestState, len(infos))
	for i := range infos {
		info := &infos[i]
		rows[i] = telemetry.RequestState{
			Origin: (*origin)(info.Request), Operation: operation(info.Request), Key: info.Request.Key(), State: info.State, In: info.Request.In(), Age: info.Age,
			Cancelled: info.Cancel, CancelledFor: info.CancelFor, Abandoned: info.Abandoned,
		}
	}
	return rows
}

func counters(c *session.Counters) state.Counters {
	out := state.Counters{
		Series: make([]state.SeriesCounters, len(c.Series)), Received: c.Received, Rejected: c.Rejected,
		Ignored:              map[mcp.IgnoredKind]map[mcp.IgnoreReason]uint64{},
		NotificationsDropped: map[string]map[mcp.DropReason]uint64{},
		NotificationsSent:    c.NotificationsSent,
		LimitsReached:        c.LimitsReached, HTTPRefused: c.ExchangesRefused, SessionsClosed: c.SessionsClosed,
		Foreign: c.Foreign, StreamsExpired: c.StreamsExpired,
		EventFailures: c.EventFailures, StreamsResumed: c.StreamsResumed, SessionsAdopted: c.SessionsAdopted, ResponsesFetched: c.ResponsesFetched, ResponsesExpired: c.ResponsesExpired,
		Displaced: c.Displaced, ObserverPanics: c.ObserverPanics,
		Refused: map[string]map[string]uint64{}, Decisions: map[string]map[string]uint64{},
	}
	for _, r := range c.Refused {
		nest(out.Refused, r.Reason, r.By, r.Count)
	}
	for _, d := range c.Decisions {
		nest(out.Decisions, d.Rule, d.Effect, d.Count)
	}
	for i, n := range c.Ignored {
		nest(out.Ignored, i.Kind, i.Reason, n)
	}
	for d, n := range c.NotificationsDropped {
		nest(out.NotificationsDropped, d.Method, d.Reason, n)
	}
	for i := range c.Series {
		s := &c.Series[i]
		out.Series[i] = state.SeriesCounters{
			Method: s.Series.Method, Target: s.Series.Target, Admitted: s.Admitted, Sent: s.Sent, Stored: s.Stored, Panics: s.Panics,
			Dropped: s.Dropped, Cancelled: map[state.CancelledIn]uint64{}, Abandoned: s.Abandoned, TasksCancelled: s.TasksCancelled,
		}
		for in, n := range s.Cancelled {
			out.Series[i].Cancelled[state.CancelledIn(in)] = n
		}
	}
	return out
}

// nest adds a count to a map of maps.
func nest[K, L comparable](all map[K]map[L]uint64, outer K, inner L, n uint64) {
	if all[outer] == nil {
		all[outer] = map[L]uint64{}
	}
	all[outer][inner] += n
}

func storeState(s *session.StoreInfo) *state.Store {
	return &state.Store{
		Replica: s.Replica, Away: s.Away, Operations: s.Operations, Took: s.Took, Signals: s.Signals, Missed: s.Missed, TasksLost: s.TasksLost,
		TasksTakenOver: s.TasksTakenOver, TasksFenced: s.TasksFenced, Fenced: s.Fenced, Evicts: s.Evicts,
		Replicas: func(ctx context.Context) (all []state.Replica) {
			for _, info := range s.Replicas(ctx) {
				all = append(all, state.Replica{
					Replica: info.Replica, Host: info.Host, Process: info.Process, Version: info.Version, Started: info.Started,
					Draining: info.Draining, InFlight: info.InFlight, Sessions: info.Sessions, Tasks: info.Tasks,
					AwayFor: time.Duration(info.AwayFor * float64(time.Second)),
				})
			}
			return all
		},
	}
}
