package session

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// maxLeftLogged bounds how many requests, and how many tasks, are logged one by one when a
// drain has run out of time.
const maxLeftLogged = 100

// logProgress logs what a drain waits for.
func (c *Core) logProgress() {
	snap := c.Snapshot()
	c.logger.Info("drain.progress", "left", len(snap.Requests), "oldest", snap.OldestAge(),
		"subscriptions", len(snap.Subscriptions), "tasks", len(snap.Detached))
}

// logDeadline logs the picture of a drain that has run out of time, as /debug/requests
// shows it: who must know what was cut off has no other place to look when the process is
// gone. It is one record with closed sets of keys, and one for each of the oldest.
func (c *Core) logDeadline() {
	snap := c.Snapshot()
	c.logger.Warn("drain.deadline", "left", len(snap.Requests), "oldest", snap.OldestAge(),
		"subscriptions", len(snap.Subscriptions), "tasks", len(snap.Detached), "outbound", len(snap.Outbound),
		slog.Group("in_flight", countAttrs(snap.states())...),
		slog.Group("sessions", countAttrs(snap.transports())...),
		slog.Group("totals", snap.Counters.logAttrs()...))
	slices.SortFunc(snap.Requests, func(a, b RequestInfo) int { return cmp.Compare(b.Age, a.Age) })
	for i := range snap.Requests[:min(len(snap.Requests), maxLeftLogged)] {
		snap.Requests[i].logLeft(c.logger, snap.At)
	}
	slices.SortFunc(snap.Detached, func(a, b DetachedInfo) int { return cmp.Compare(b.Age, a.Age) })
	for i := range snap.Detached[:min(len(snap.Detached), maxLeftLogged)] {
		snap.Detached[i].logLeft(c.logger)
	}
}

// logLeft logs a request that a drain has not waited for.
func (info *RequestInfo) logLeft(logger *slog.Logger, at time.Time) {
	r := info.Request
	attrs := append(r.logAttrs(), "state", info.State, "left", r.deadline.Sub(at))
	if r.Conn != nil {
		attrs = appendText(append(attrs, "transport", r.Conn.Transport), "remote", r.Conn.RemoteAddr)
		attrs = appendText(attrs, "principal", Printable(r.Conn.Principal, maxClientText))
	}
	name, version := ClientOf(r.Inbound, r.session)
	attrs = appendText(appendText(attrs, "client", name), "client_version", version)
	logger.WarnContext(r.ctx, "drain.left", appendCancel(attrs, info.Cancel, info.CancelFor, info.Abandoned)...)
}

// logLeft logs a task that a drain has not waited for.
func (info *DetachedInfo) logLeft(logger *slog.Logger) {
	attrs := append(info.Detached.logAttrs(), "left", info.Left)
	logger.WarnContext(info.Detached.Context(), "drain.left",
		appendCancel(attrs, info.Cancel, info.CancelFor, info.Abandoned)...)
}

// appendText appends what is known, and nothing for "".
func appendText(attrs []any, key, value string) []any {
	if value == "" {
		return attrs
	}
	return append(attrs, key, value)
}

// appendCancel appends how it stands with a cancellation, if there was one.
func appendCancel(attrs []any, err *mcp.CancelError, since time.Duration, abandoned bool) []any {
	if err == nil {
		return attrs
	}
	attrs = append(attrs, "cause", err.Cause, "cancelled_for", since, "abandoned", abandoned)
	return appendText(attrs, "reason", err.Detail)
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
		addAll(cancelled, c.Series[i].Cancelled)
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
