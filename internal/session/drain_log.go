package session

import (
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/order"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// maxLeftLogged bounds how many of each (requests, tasks, requests to clients, sessions) are
// logged one by one when a drain has run out of time.
const maxLeftLogged = 100

// logProgress logs what a drain waits for.
func (c *Core) logProgress() {
	snap := c.Snapshot()
	c.logger.Info("drain.progress", "left", len(snap.Requests), "oldest", snap.OldestAge(),
		"subscriptions", len(snap.Subscriptions), "tasks", len(snap.Detached))
}

// logDeadline logs the picture of a drain that has run out of time, as /debug/requests
// shows it: when the process is gone, the log is the only place that tells what was cut off.
// It is one record with closed sets of keys, and one for each of the oldest.
func (c *Core) logDeadline() {
	snap := c.Snapshot()
	c.logger.Warn("drain.deadline", "left", len(snap.Requests), "oldest", snap.OldestAge(),
		"subscriptions", len(snap.Subscriptions), "tasks", len(snap.Detached), "outbound", len(snap.Outbound),
		slog.Group("in_flight", countAttrs(snap.states())...),
		slog.Group("sessions", countAttrs(snap.transports())...),
		slog.Group("totals", snap.Counters.logAttrs()...))
	for _, info := range oldest(append(snap.Requests, snap.Subscriptions...), func(i *RequestInfo) time.Duration { return i.Age }) {
		info.logLeft(c.logger, snap.At)
	}
	for _, info := range oldest(snap.Detached, func(i *DetachedInfo) time.Duration { return i.Age }) {
		info.logLeft(c.logger)
	}
	for _, info := range oldest(snap.Outbound, func(i *OutboundInfo) time.Duration { return i.Age }) {
		c.logger.Warn("drain.outbound", "method", info.Method, "id", info.ID.String(), "session", info.Session.LogID(), "age", info.Age)
	}
	for _, info := range oldest(snap.Sessions, func(i *SessionInfo) time.Duration { return i.Age }) {
		info.log(c.logger)
	}
}

// oldest returns the entries that are logged one by one, the oldest first.
func oldest[T any](all []T, age func(*T) time.Duration) []T {
	order.By(all, func(a, b *T) bool { return age(a) > age(b) })
	return all[:min(len(all), maxLeftLogged)]
}

// log logs a session that is open when a drain has run out of time.
func (info *SessionInfo) log(logger *slog.Logger) {
	conn := info.Session.conn
	attrs := []any{"session", info.Session.LogID(), "transport", conn.Transport, "age", info.Age, "idle", info.Idle,
		"requests", info.Requests, "streaming", info.Streaming}
	attrs = appendText(appendText(attrs, "remote", conn.RemoteAddr), "principal", logline.Printable(conn.Principal.String(), maxClientText))
	logger.Warn("drain.session", info.Peer.appendClient(attrs)...)
}

// logLeft logs a request that a drain has not waited for.
func (info *RequestInfo) logLeft(logger *slog.Logger, at time.Time) {
	r := info.Request
	attrs := append(r.LogAttrs(), "state", info.State, "left", r.Deadline().Sub(at))
	if r.Conn != nil {
		attrs = appendText(append(attrs, "transport", r.Conn.Transport), "remote", r.Conn.RemoteAddr)
	}
	logger.WarnContext(r.ctx, "drain.left", info.appendCancel(attrs)...)
}

// logLeft logs a task that a drain has not waited for.
func (info *DetachedInfo) logLeft(logger *slog.Logger) {
	attrs := append(info.Detached.LogAttrs(), "left", info.Left)
	logger.WarnContext(info.Detached.Context(), "drain.left",
		info.appendCancel(attrs)...)
}

// appendCancel appends how it stands with a cancellation, if there was one.
func (info *WorkInfo) appendCancel(attrs []any) []any {
	if info.Cancel == nil {
		return attrs
	}
	attrs = append(attrs, "cause", info.Cancel.Cause, "cancelled_for", info.CancelFor, "abandoned", info.Abandoned)
	return appendText(attrs, "reason", info.Cancel.Detail)
}

// states counts the live requests by their state.
func (s *Snapshot) states() map[string]uint64 {
	counts := map[string]uint64{}
	for _, list := range [][]RequestInfo{s.Requests, s.Subscriptions} {
		for i := range list {
			counts[list[i].State]++
		}
	}
	return counts
}

// transports counts the sessions by their transport.
func (s *Snapshot) transports() map[string]uint64 {
	counts := map[string]uint64{}
	for i := range s.Sessions {
		counts[s.Sessions[i].Session.conn.Transport]++
	}
	return counts
}

// logAttrs are the totals since the start.
func (c *Counters) logAttrs() []any {
	admitted, sent, stored, _ := c.Totals()
	dropped, cancelled, abandoned, panics := map[mcp.DropReason]uint64{}, map[mcp.Cause]uint64{}, map[mcp.Cause]uint64{}, uint64(0)
	for i := range c.Series {
		addAll(dropped, c.Series[i].Dropped)
		addAll(cancelled, CancelledBy(c.Series[i].Cancelled))
		addAll(abandoned, c.Series[i].Abandoned)
		panics += c.Series[i].Panics
	}
	return []any{
		slog.Group("received", countAttrs(c.Received)...),
		"admitted", admitted, "sent", sent, "stored", stored,
		slog.Group("dropped", countAttrs(dropped)...),
		slog.Group("cancelled", countAttrs(cancelled)...),
		slog.Group("rejected", countAttrs(c.Rejected)...),
		slog.Group("abandoned", countAttrs(abandoned)...),
		"panics", panics,
	}
}

// countAttrs lists the counts that are not zero. Their keys are from closed sets.
func countAttrs[K ~string](counts map[K]uint64) (attrs []any) {
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		if n := counts[key]; n > 0 {
			attrs = append(attrs, string(key), n)
		}
	}
	return attrs
}
