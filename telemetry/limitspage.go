package telemetry

import (
	"net/http"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/telemetry/state"
)

// LimitsHandler serves GET /debug/limits: the limits, which list returns, with how much of each is used and how
// often it was reached; then classes and rate limits of the program. It is JSON, or text as with
// [Telemetry.RequestsHandler]. list must be safe for concurrent use.
func (t *Telemetry) LimitsHandler(list func() []state.Limit) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if readOnly(w, req) {
			report.Write(w, req, t.reportLimits(list()))
		}
	})
}

func (t *Telemetry) reportLimits(list []state.Limit) *report.Limits {
	page := &report.Limits{At: t.now(), Limits: []report.Limit{}, OtherReached: map[string]uint64{}}
	uses := limitUses{}
	snaps := t.snapshots()
	reached := map[string]uint64{}
	if t.Enabled() {
		reached = t.metrics.snapshots.sums(MetricLimitReached, snaps)
	}
	var classes, parts []report.Limit
	for _, snap := range snaps {
		uses.add(snap)
		parts = append(parts, partLimits(snap)...)
		for _, c := range snap.Classes {
			name := session.ClassPrefix + c.Name
			classes = append(classes, report.Limit{Limit: name, Value: float64(c.Limit), Default: float64(c.Limit), From: report.LimitSet, Unit: "requests"})
			uses.of(name).Used = &c.InUse
			reached[name] = snap.Counters.LimitsReached[name]
		}
		for _, limit := range snap.RateLimits {
			page.RateLimits = append(page.RateLimits, report.RateLimit(limit))
		}
	}
	counted := func(row *report.Limit) {
		n := reached[row.Limit]
		row.Reached = &n
		delete(reached, row.Limit)
	}
	for i := range list {
		l := &list[i]
		row := report.Limit{
			Limit: l.Name, Value: l.Value, Default: l.Default, From: l.From, Unit: l.Unit, Flag: l.Flag, Env: l.Env, About: l.About,
		}
		if l.Counted {
			counted(&row)
		}
		page.Limits = append(page.Limits, row)
	}
	for i := range parts {
		counted(&parts[i])
	}
	for i := range classes {
		counted(&classes[i])
	}
	page.Limits = append(append(append(page.Limits, parts...), t.ownLimits()...), classes...)
	for i := range page.Limits {
		row := &page.Limits[i]
		if row.Limit == limitTenants {
			counted(row)
		}
		if use := uses[row.Limit]; use != nil {
			row.Used, row.Largest, row.Caller = use.Used, use.Largest, use.Caller
		}
	}
	for name, n := range reached {
		if n > 0 {
			page.OtherReached[name] = n
		}
	}
	return page
}

// limitUses has what is used of limits, by their names.
type limitUses map[string]*report.Limit

func (u limitUses) of(limit string) *report.Limit {
	if u[limit] == nil {
		u[limit] = &report.Limit{}
	}
	return u[limit]
}

// add adds what a snapshot tells of limits.
func (u limitUses) add(snap *Snapshot) {
	for i := range snap.Shares {
		share := &snap.Shares[i]
		row := u.of(share.Limit)
		row.Used, row.Largest, row.Caller = &share.Used, &share.Largest, reportShare(share).Caller
	}
	if snap.Sessions != nil { // a server
		u.addSessions(snap)
	}
	if len(snap.TaskStatus) > 0 {
		kept := 0
		for _, n := range snap.TaskStatus {
			kept += n
		}
		u.of(limits.NameTasks).Used = &kept
	}
}

// addSessions adds limits of each session or client, with the largest one.
func (u limitUses) addSessions(snap *Snapshot) {
	busiest, asked := 0, 0
	for i := range snap.Sessions {
		busiest = max(busiest, snap.Sessions[i].Requests)
	}
	open := map[string]int{}
	for i := range snap.Outbound {
		open[snap.Outbound[i].Session]++
		asked = max(asked, open[snap.Outbound[i].Session])
	}
	u.of(limits.NameInFlight).Largest, u.of(limits.NameOutbound).Largest = &busiest, &asked
}
