package telemetry

import (
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/changes"
	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// The link of a change has all classes and values that the change is about.
func TestLinksOfChangesSelectWhatTheyCount(t *testing.T) {
	parts := func(dimension string, values ...changes.Value) []changes.Part {
		return []changes.Part{{Dimension: dimension, Values: values}}
	}
	for want, c := range map[string]changes.Change{
		"method=tools%2Fcall&outcome=stored&tool=refund":            {Measure: changes.MeasureExpired, Reason: "max_events", Parts: parts(changes.DimensionTool, changes.Value{Text: "tools/call", Detail: "refund"})},
		"class=error&class=panic":                                   {Measure: changes.MeasureErrors},
		"cause=deadline&class=cancelled&class=abandoned":            {Measure: changes.MeasureCancelled, Reason: "deadline"},
		"class=caller_error&principal=-":                            {Measure: changes.MeasureCallerErrors, Parts: parts(changes.DimensionPrincipal, changes.Value{})},
		"class=dropped&client=cli&client=desk&reason=write_timeout": {Measure: changes.MeasureDropped, Reason: "write_timeout", Parts: parts(changes.DimensionClient, changes.Value{Text: "cli"}, changes.Value{Text: "desk"})},
		"method=tools%2Fcall&tool=refund&tool=order": {Measure: changes.MeasureRunning, Parts: parts(changes.DimensionTool,
			changes.Value{Text: "tools/call", Detail: "refund"}, changes.Value{Text: "tools/call", Detail: "order"})},
		"method=ping&method=tools%2Fcall&tool=-&tool=order": {Measure: changes.MeasureRunning, Parts: parts(changes.DimensionTool,
			changes.Value{Text: "ping"}, changes.Value{Text: "tools/call", Detail: "order"})},
		"client=desk&client_version=4.3.0": {Measure: changes.MeasureCalls, Parts: parts(changes.DimensionVersion, changes.Value{Text: "desk", Detail: "4.3.0"})},
		"":                                 {Measure: changes.MeasureCalls, Parts: parts(changes.DimensionClient, changes.Value{Text: changes.Other}, changes.Value{Text: "desk"})},
	} {
		query := requestsOf(&c)
		require.Equal(t, want, query.Encode())
		_, err := newTraceFilter(query)
		require.NoError(t, err, want)
	}
}

// The links lead to requests whose handler panicked, and to those that the server waits no longer for.
func TestLinksOfChangesFindPanicsAndAbandonedRequests(t *testing.T) {
	r := newRig(t, rigConfig{})
	begin := func() *Operation {
		_, op := r.tel.Begin(t.Context(), Info{Method: mcp.MethodToolsCall, Target: "refund"})
		return op
	}
	failed, panicked, cancelled, abandoned := begin(), begin(), begin(), begin()
	failed.End(Outcome{Err: mcp.NewError(mcp.CodeInternalError, "no")})
	panicked.Panicked("no", nil)
	panicked.End(Outcome{Err: mcp.NewError(mcp.CodeInternalError, "no")})
	cancel := &mcp.CancelError{Cause: mcp.CauseDeadline}
	cancelled.End(Outcome{Cancelled: cancel})
	abandoned.Abandoned(Outcome{Cancelled: cancel})
	classes := func(query url.Values) (found []string) {
		for _, row := range fetch[report.Traces](t, r, "/debug/traces?"+query.Encode()).Traces {
			found = append(found, row.Class)
		}
		return found
	}
	require.ElementsMatch(t, []string{classError, classPanic}, classes(requestsOf(&changes.Change{Measure: changes.MeasureErrors})))
	require.ElementsMatch(t, []string{classCancelled, classAbandoned},
		classes(requestsOf(&changes.Change{Measure: changes.MeasureCancelled, Reason: "deadline"})))
	abandoned.End(Outcome{Cancelled: cancel})
}

// The query of rejected arguments counts them: their answers are no errors of the service.
func TestQueryOfRejectedArguments(t *testing.T) {
	c := changes.Change{Measure: changes.MeasureCallerErrors, Reason: reasonArguments}
	require.Equal(t, `sum by (tool) (rate(vitrine_arguments_rejected_total[1m]))`, promQueryOf(&c).text)
	c.Parts = []changes.Part{{Dimension: changes.DimensionTool, Values: []changes.Value{{Text: "tools/call", Detail: "order"}}}}
	require.Equal(t, `sum by (tool) (rate(vitrine_arguments_rejected_total{tool="order"}[1m]))`, promQueryOf(&c).text)
}

// Stored answers are lost long after their requests, which the line still leads to. Prometheus counts them by
// reason only.
func TestLinksOfLostAnswers(t *testing.T) {
	r := newRig(t, rigConfig{})
	_, op := r.tel.Begin(t.Context(), Info{Method: mcp.MethodToolsCall, Target: "refund", ArrivedAt: time.Now().Add(-time.Hour)})
	op.End(Outcome{Fate: FateStored})
	c := changes.Change{
		Measure: changes.MeasureExpired, Reason: "max_event_bytes_total", Count: 9, Since: time.Now(), Lasts: true,
		Parts: []changes.Part{{Dimension: changes.DimensionTool, Values: []changes.Value{{Text: "tools/call", Detail: "refund"}}}},
	}
	row := r.tel.change(&c)
	require.Equal(t, "/debug/traces?method=tools%2Fcall&outcome=stored&tool=refund", row.Requests)
	require.Equal(t, []string{op.SpanContext().TraceID().String()}, row.Traces)
	require.Equal(t, `sum by (reason) (rate(vitrine_responses_expired_total[1m]))`, row.PromQL)
}

// A link leads to the requests that ended during the change, also if they arrived before it.
func TestLinksOfChangesHaveTheirTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{})
		var ids []string
		cancel := &mcp.CancelError{Cause: mcp.CauseDeadline}
		for range 4 { // they end at 12, 32, 52 and 72 s
			_, op := r.tel.Begin(t.Context(), Info{Method: mcp.MethodToolsCall, Target: "refund"})
			time.Sleep(12 * time.Second)
			op.End(Outcome{Cancelled: cancel})
			ids = append([]string{op.SpanContext().TraceID().String()}, ids...)
			time.Sleep(8 * time.Second)
		}
		end := time.Now()
		c := changes.Change{Measure: changes.MeasureCancelled, Since: end.Add(-50 * time.Second), Until: end.Add(-10 * time.Second)}
		const link = "/debug/traces?class=cancelled&class=abandoned&since=2000-01-01T00%3A00%3A30Z"
		for _, want := range []struct {
			lasts bool
			link  string
			ids   []string
		}{{true, link, ids[:3]}, {false, link + "&until=2000-01-01T00%3A01%3A10Z", ids[1:3]}} {
			c.Lasts = want.lasts
			row := r.tel.change(&c)
			require.Equal(t, want.link, row.Requests)
			require.Equal(t, want.ids, row.Traces)
			var listed []string
			for _, trace := range fetch[report.Traces](t, r, row.Requests).Traces {
				listed = append(listed, trace.TraceID)
			}
			require.Equal(t, want.ids, listed)
		}
		c.Measure = changes.MeasureExpired
		require.NotContains(t, r.tel.change(&c).Requests, "since=")
	})
}

// A query says that it counts more than the line is about: metrics have no clients and principals, some have no
// tools, and a query selects one tool.
func TestQueriesOfChangesSayWhatTheyCover(t *testing.T) {
	refund, order, ping := changes.Value{Text: "tools/call", Detail: "refund"}, changes.Value{Text: "tools/call", Detail: "order"}, changes.Value{Text: "ping"}
	tool := func(values ...changes.Value) changes.Part {
		return changes.Part{Dimension: changes.DimensionTool, Values: values}
	}
	ada := changes.Part{Dimension: changes.DimensionPrincipal, Values: []changes.Value{{Text: "ada"}}}
	for _, row := range []struct {
		measure string
		parts   []changes.Part
		want    string
	}{
		{changes.MeasureErrors, nil, ""},
		{changes.MeasureErrors, []changes.Part{tool(refund)}, ""},
		{changes.MeasureErrors, []changes.Part{tool(refund, order)}, "the whole server"},
		{changes.MeasureErrors, []changes.Part{ada}, "the whole server"},
		{changes.MeasureErrors, []changes.Part{ada, tool(refund)}, "all callers of refund"},
		{changes.MeasureCalls, []changes.Part{ada, tool(ping)}, "all callers of ping"},
		{changes.MeasureQueued, []changes.Part{tool(refund)}, "the whole server"},
		{changes.MeasureQueued, nil, ""},
		{changes.MeasureCallerErrors, []changes.Part{ada, tool(refund)}, "all callers of refund"},
		{changes.MeasureCallerErrors, []changes.Part{tool(ping)}, "the whole server"},
	} {
		c := changes.Change{Measure: row.measure, Parts: row.parts}
		if row.measure == changes.MeasureCallerErrors {
			c.Reason = reasonArguments
		}
		query := promQueryOf(&c)
		require.Equal(t, row.want, query.covers(&c), "%s: %s", row.measure, query.text)
	}
}
