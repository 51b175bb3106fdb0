package telemetry

import (
	"cmp"
	"sort"

	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/report"
)

// maxCallers bounds the callers of a report.
const maxCallers = 20

// callers adds up requests, subscriptions and sessions by caller.
type callers map[callerKey]*report.Caller

// A callerKey identifies a caller. The principal is not cut.
type callerKey struct{ principal, client, remote string }

func (c callers) of(info *Info, client string) *report.Caller {
	key := callerKey{info.Principal.String(), client, report.Host(info.RemoteAddr)}
	row := c[key]
	if row == nil {
		row = &report.Caller{Principal: logline.Printable(key.principal, maxName), Client: client, Remote: key.remote}
		c[key] = row
	}
	return row
}

func (c callers) addRequest(state *RequestState, info *Info, client string) {
	row := c.of(info, client)
	row.Requests++
	if state.State == report.StateQueued {
		row.Queued++
	}
	row.OldestAgeSeconds = max(row.OldestAgeSeconds, state.Age.Seconds())
}

// top returns the callers with the most requests, the busiest first. left is the number of the
// others.
func (c callers) top() (rows []report.Caller, left int) {
	rows = make([]report.Caller, 0, len(c))
	for _, row := range c {
		rows = append(rows, *row)
	}
	sortRows(rows, func(a, b *report.Caller) bool {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(b.Sessions+b.Subscriptions, a.Sessions+a.Subscriptions),
			cmp.Compare(a.Principal, b.Principal), cmp.Compare(a.Client, b.Client), cmp.Compare(a.Remote, b.Remote)) < 0
	})
	if left = len(rows) - maxCallers; left > 0 {
		return rows[:maxCallers:maxCallers], left
	}
	return rows, 0
}

// sortRows sorts the rows of a page. The sort is stable. It does not use package slices, whose
// functions are compiled for each kind of row, which takes 25 KB of each program.
func sortRows[T any](rows []T, less func(a, b *T) bool) {
	sort.SliceStable(rows, func(i, j int) bool { return less(&rows[i], &rows[j]) })
}
