package telemetry

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/order"
	"github.com/vitrine-mcp/vitrine/internal/report"
)

// maxGroups bounds the groups of a page.
const maxGroups = 100

// A grouped is a request that is counted in a group. Those that have ended have an outcome.
type grouped struct {
	at      time.Time
	trace   string // "": none
	ended   bool
	outcome string
	why     string
	seconds float64
}

// A field is a text by which requests are selected and grouped.
type field[T any] struct {
	name string
	of   func(row T) string
}

// requestFields lists the fields of requests in flight.
func requestFields() []field[*report.Request] {
	return []field[*report.Request]{
		{"method", func(r *report.Request) string { return r.Method }},
		{"tool", func(r *report.Request) string { return r.Tool }},
		{"client", func(r *report.Request) string { return r.Client }},
		{"client_version", func(r *report.Request) string { return r.ClientVersion }},
		{"principal", func(r *report.Request) string { return r.Principal }},
		{"tenant", func(r *report.Request) string { return r.Tenant }},
		{"session", func(r *report.Request) string { return r.Session }},
		{"concurrency_class", func(r *report.Request) string { return r.ConcurrencyClass }},
		{"state", func(r *report.Request) string { return r.State }},
		{"cause", func(r *report.Request) string { return r.CancelCause }},
	}
}

// chosen returns the fields that a query names, separated by commas. The error lists all fields.
func chosen[T any](fields []field[T], query string) (list []field[T], err error) {
	var names []string
	for _, f := range fields {
		names = append(names, f.name)
	}
	for _, name := range strings.Split(query, ",") {
		i := slices.Index(names, name)
		if i < 0 {
			return nil, fmt.Errorf("group: there is no field %q: want some of %s, separated by commas", name, strings.Join(names, ", "))
		}
		if !slices.ContainsFunc(list, func(f field[T]) bool { return f.name == name }) {
			list = append(list, fields[i])
		}
	}
	return list, nil
}

// A grouping counts requests with the same texts together.
type grouping struct {
	at     time.Time
	total  int
	groups map[string]*group
}

type group struct {
	report.Group
	seconds  []float64
	attempts map[string]int // by trace
}

// add counts a request in the group with these texts. Of those that have ended the latest one comes first.
func (g *grouping) add(values []string, r grouped) {
	if g.groups == nil {
		g.groups = map[string]*group{}
	}
	key := strings.Join(values, "\x00")
	of := g.groups[key]
	if of == nil {
		of = &group{Group: report.Group{Values: values}, attempts: map[string]int{}}
		g.groups[key] = of
	}
	g.total++
	of.Count++
	of.OldestAgeSeconds = max(of.OldestAgeSeconds, g.at.Sub(r.at).Seconds())
	if r.trace != "" {
		of.attempts[r.trace]++
		of.MostAttempts = max(of.MostAttempts, of.attempts[r.trace])
		of.Traces = len(of.attempts)
	}
	if r.ended {
		if of.Outcomes == nil {
			of.Outcomes = map[string]int{}
		}
		of.Outcomes[r.outcome]++
		of.Why = cmp.Or(of.Why, r.why)
		of.seconds = append(of.seconds, r.seconds)
		of.MaxSeconds = max(of.MaxSeconds, r.seconds)
	}
}

// page returns the largest groups.
func (g *grouping) page(by []string) *report.Groups {
	rep := &report.Groups{At: g.at, By: by, Requests: g.total, Groups: []report.Group{}}
	for _, of := range g.groups {
		if len(of.seconds) > 0 {
			slices.Sort(of.seconds)
			of.P50Seconds = of.seconds[(len(of.seconds)-1)/2]
		}
		rep.Groups = append(rep.Groups, of.Group)
	}
	order.By(rep.Groups, func(a, b *report.Group) bool {
		return cmp.Or(cmp.Compare(b.Count, a.Count), slices.Compare(a.Values, b.Values)) < 0
	})
	if rep.LeftOut = max(len(rep.Groups)-maxGroups, 0); rep.LeftOut > 0 {
		rep.Groups = rep.Groups[:maxGroups:maxGroups]
	}
	return rep
}

// groupedBy counts rows together that have the same texts in some fields.
func groupedBy[T any](fields []field[T], at time.Time, rows []T, describe func(row T) grouped) *report.Groups {
	g, by := grouping{at: at}, make([]string, len(fields))
	for i, f := range fields {
		by[i] = f.name
	}
	for _, row := range rows {
		values := make([]string, len(fields))
		for i, f := range fields {
			values[i] = f.of(row)
		}
		g.add(values, describe(row))
	}
	return g.page(by)
}

// groupedRequests groups the requests in flight.
func groupedRequests(rep *report.Requests, fields []field[*report.Request]) *report.Groups {
	rows := make([]*report.Request, 0, len(rep.Requests)+len(rep.Subscriptions))
	for _, list := range [][]report.Request{rep.Requests, rep.Subscriptions} {
		for i := range list {
			rows = append(rows, &list[i])
		}
	}
	return groupedBy(fields, rep.At, rows, func(r *report.Request) grouped {
		return grouped{at: rep.At.Add(-time.Duration(r.AgeSeconds * float64(time.Second))), trace: r.TraceID}
	})
}

// groupedTraces groups the records that a filter selects.
func (t *Telemetry) groupedTraces(filter *traceFilter) *report.Groups {
	var rows []*record
	for _, k := range t.latest() {
		if filter.selects(k) {
			rows = append(rows, k)
		}
	}
	rep := groupedBy(filter.group, time.Now(), rows, func(k *record) grouped {
		row := k.row()
		r := grouped{at: k.arrived, ended: true, outcome: cmp.Or(string(k.cause), k.reason(), k.errorType, k.outcome()), why: row.WhyInShort(), seconds: k.took.Seconds()}
		if k.traceID.IsValid() {
			r.trace = k.traceID.String()
		}
		return r
	})
	rep.Outgoing = t.outgoing(rows)
	if t.Enabled() {
		rep.Full = slices.DeleteFunc(t.recent.full(), func(class string) bool { return !filter.mayBe(class) })
	}
	return rep
}

// outgoing adds up the HTTP requests of handlers. Requests of the same trace share its spans.
func (t *Telemetry) outgoing(rows []*record) []report.Outgoing {
	var all []report.Span
	seen := map[*traceSpans]bool{}
	for _, k := range rows {
		if k.spans == nil || seen[k.spans] {
			continue
		}
		seen[k.spans] = true
		spans, _ := t.recent.spans.of(k.spans)
		for _, span := range spans {
			all = append(all, span.since(k.arrived))
		}
	}
	return report.OutgoingOf(all)
}

// attempts counts the requests of the trace of a record: those that are kept, and those in flight.
func (t *Telemetry) attempts(k *record) (kept, inFlight int) {
	if !k.traceID.IsValid() {
		return 1, 0
	}
	for _, other := range t.latest() {
		if other.traceID == k.traceID {
			kept++
		}
	}
	for _, snap := range t.snapshots() {
		for i := range snap.Requests {
			if snap.Requests[i].Operation.SpanContext().TraceID() == k.traceID {
				inFlight++
			}
		}
	}
	return kept, inFlight
}
