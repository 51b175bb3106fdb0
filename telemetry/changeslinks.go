package telemetry

import (
	"cmp"
	"net/url"
	"slices"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/changes"
	"github.com/vitrine-mcp/vitrine/internal/report"
)

// tracesOfChange is how many traces a change names.
const tracesOfChange = 3

// change makes the row of a page.
func (t *Telemetry) change(c *changes.Change) report.Change {
	query := promQueryOf(c)
	row := report.Change{
		Text: c.Text(time.UTC), Measure: c.Measure, Score: c.Score, Lasts: c.Lasts, Before: c.Before, After: c.After,
		Windows:       report.Windows{From: c.Since.UTC(), To: c.Until.UTC(), BeforeFrom: c.BeforeFrom.UTC(), BeforeTo: c.BeforeTo.UTC()},
		ShareOfChange: c.Share, ShareOfCalls: c.Calls, Parts: []report.ChangePart{}, Reason: c.Reason, Phase: c.Phase,
		Count: c.Count, Traces: []string{}, PromQL: query.text, PromQLCovers: query.covers(c),
	}
	if !c.First.IsZero() {
		row.FirstSeen = c.First.UTC()
	}
	for i := range c.Parts {
		row.Parts = append(row.Parts, report.ChangePart{Dimension: c.Parts[i].Dimension, Values: c.Parts[i].Texts()})
	}
	link := requestsOf(c)
	addTimes(link, c)
	row.Requests = "/debug/traces?" + link.Encode()
	if filter, err := newTraceFilter(link); err == nil {
		for _, k := range t.latest() {
			if len(row.Traces) < tracesOfChange && k.traceID.IsValid() && filter.selects(k) {
				row.Traces = append(row.Traces, k.traceID.String())
				if c.Count > 0 { // else they are no failures
					request := k.row()
					row.Example = cmp.Or(row.Example, request.Fault())
				}
			}
		}
	}
	return row
}

// addTimes adds to a query when the requests behind a change ended. Stored answers are lost long after their
// requests.
func addTimes(query url.Values, c *changes.Change) {
	if c.Measure != changes.MeasureExpired {
		query.Set("since", c.Since.UTC().Format(time.RFC3339))
	}
	if !c.Lasts {
		query.Set("until", c.Until.UTC().Format(time.RFC3339))
	}
}

// requestsOf returns the query of /debug/traces for the requests behind a change.
func requestsOf(c *changes.Change) url.Values {
	query := url.Values{}
	set := func(name string, values ...string) {
		for _, value := range values {
			if value != "" && value != changes.Other && !slices.Contains(query[name], value) {
				query.Add(name, value)
			}
		}
	}
	switch c.Measure {
	case changes.MeasureErrors:
		set("class", classError, classPanic)
	case changes.MeasureCallerErrors:
		set("class", classCaller)
	case changes.MeasureCancelled:
		set("class", classCancelled, classAbandoned)
		set("cause", c.Reason)
	case changes.MeasureDropped:
		set("class", classDropped)
		set("reason", c.Reason)
	case changes.MeasureRejected:
		set("class", classRejected)
		set("reason", c.Reason)
	case changes.MeasureExpired:
		set("outcome", string(FateStored))
	}
	for _, part := range c.Parts {
		several := len(part.Values) > 1 // a request has one of them
		if several && slices.ContainsFunc(part.Values, func(v changes.Value) bool { return v.Text == changes.Other || v.Detail == changes.Other }) {
			continue
		}
		for _, v := range part.Values {
			detail := v.Detail
			if several {
				detail = cmp.Or(detail, noText)
			}
			switch part.Dimension {
			case changes.DimensionClient:
				set("client", v.Text)
			case changes.DimensionVersion:
				set("client", v.Text)
				set("client_version", detail)
			case changes.DimensionPrincipal:
				set("principal", cmp.Or(v.Text, noText))
			case changes.DimensionTool:
				set("method", v.Text)
				set("tool", detail)
			}
		}
	}
	return query
}
