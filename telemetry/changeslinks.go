package telemetry

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/changes"
	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// tracesOfChange is how many traces a change names.
const tracesOfChange = 3

// change makes the row of a page.
func (t *Telemetry) change(c *changes.Change) report.Change {
	row := report.Change{
		Text: c.Text(time.UTC), Measure: c.Measure, Score: c.Score, Lasts: c.Lasts, Before: c.Before, After: c.After,
		Windows:       report.Windows{From: c.Since.UTC(), To: c.Until.UTC(), BeforeFrom: c.BeforeFrom.UTC(), BeforeTo: c.BeforeTo.UTC()},
		ShareOfChange: c.Share, ShareOfCalls: c.Calls, Parts: []report.ChangePart{}, Reason: c.Reason, Phase: c.Phase,
		Count: c.Count, Traces: []string{}, PromQL: promQL(c),
	}
	if !c.First.IsZero() {
		row.FirstSeen = c.First.UTC()
	}
	for i := range c.Parts {
		row.Parts = append(row.Parts, report.ChangePart{Dimension: c.Parts[i].Dimension, Values: c.Parts[i].Texts()})
	}
	query := requestsOf(c)
	addTimes(query, c)
	row.Requests = "/debug/traces?" + query.Encode()
	if filter, err := newTraceFilter(query); err == nil {
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

// promQL returns a query that shows a change. Metrics have no clients and principals, so that the query shows
// those of the tool.
func promQL(c *changes.Change) string {
	method, tool := "", ""
	for _, part := range c.Parts {
		if part.Dimension == changes.DimensionTool && len(part.Values) == 1 {
			method, tool = part.Values[0].Text, part.Values[0].Detail
		}
	}
	selector := func(methodLabel, toolLabel string, more ...string) string {
		var conditions []string
		if method != "" {
			conditions = append(conditions, fmt.Sprintf("%s=%q", methodLabel, method))
		}
		if tool != "" {
			conditions = append(conditions, fmt.Sprintf("%s=%q", toolLabel, tool))
		}
		return "{" + strings.Join(append(conditions, more...), ",") + "}"
	}
	operationTool := "gen_ai_tool_name"
	if method == mcp.MethodPromptsGet {
		operationTool = "gen_ai_prompt_name"
	}
	counted := func(by, metric, selector string) string {
		return fmt.Sprintf("sum by (%s) (rate(%s%s[1m]))", by, metric, selector)
	}
	mean := func(metric, selector string) string {
		return fmt.Sprintf("sum(rate(%[1]s_sum%[2]s[1m])) / sum(rate(%[1]s_count%[2]s[1m]))", metric, selector)
	}
	calls := MetricOperationDuration + "_count"
	switch c.Measure {
	case changes.MeasureErrors:
		return counted("error_type", calls, selector("mcp_method_name", operationTool, `error_type!~"|client_cancel|client_disconnect|session_delete|session_idle"`))
	case changes.MeasureCallerErrors:
		if c.Reason == reasonArguments {
			if tool == "" {
				return counted("tool", MetricArgumentsRejected, "")
			}
			return counted("tool", MetricArgumentsRejected, fmt.Sprintf("{tool=%q}", tool))
		}
		return counted("rpc_response_status_code", calls, selector("mcp_method_name", operationTool, `error_type=""`))
	case changes.MeasureCancelled:
		return counted("cause", MetricRequestsCancelled, selector("method", "tool"))
	case changes.MeasureDropped:
		return counted("reason", MetricResponsesDropped, selector("method", "tool"))
	case changes.MeasureRejected:
		return counted("reason", MetricRequestsRejected, "")
	case changes.MeasureExpired:
		return counted("reason", MetricResponsesExpired, "")
	case changes.MeasureRunning:
		return mean(MetricOperationDuration, selector("mcp_method_name", operationTool))
	case changes.MeasureQueued:
		return mean(MetricQueueWait, "")
	case changes.MeasureBlocked:
		return mean(MetricClientDuration, "")
	case changes.MeasureWriting:
		return mean(MetricWrite, "")
	case changes.MeasureAnswerBytes:
		return mean(MetricResponseBytes, selector("method", "tool"))
	case changes.MeasureRequestBytes:
		return mean(MetricRequestBytes, selector("method", "tool"))
	}
	return fmt.Sprintf("sum(rate(%s%s[1m]))", calls, selector("mcp_method_name", operationTool))
}
