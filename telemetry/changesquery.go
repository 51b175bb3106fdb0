package telemetry

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/vitrine-mcp/vitrine/internal/changes"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A promQuery is a query for Prometheus that shows a change. Metrics have no clients and principals, and some
// of them no tools.
type promQuery struct {
	text         string
	method, tool string // of the change, if it has one
	selects      bool   // the query counts only calls of these
}

// promQueryOf returns the query of a change.
func promQueryOf(c *changes.Change) promQuery {
	var q promQuery
	for _, part := range c.Parts {
		if part.Dimension == changes.DimensionTool && len(part.Values) == 1 {
			q.method, q.tool = part.Values[0].Text, part.Values[0].Detail
		}
	}
	q.text = q.textOf(c)
	return q
}

// covers says whose calls the query counts, or returns "" if these are those of the change.
func (q *promQuery) covers(c *changes.Change) string {
	switch {
	case !q.selects && len(c.Parts) > 0:
		return "the whole server"
	case q.selects && len(c.Parts) > 1:
		return "all callers of " + cmp.Or(q.tool, q.method)
	}
	return ""
}

// selector selects the method and the tool by labels of these names.
func (q *promQuery) selector(methodLabel, toolLabel string, more ...string) string {
	q.selects = q.method != ""
	var conditions []string
	if q.method != "" {
		conditions = append(conditions, fmt.Sprintf("%s=%q", methodLabel, q.method))
	}
	if q.tool != "" {
		conditions = append(conditions, fmt.Sprintf("%s=%q", toolLabel, q.tool))
	}
	return "{" + strings.Join(append(conditions, more...), ",") + "}"
}

// operations is the selector of the durations of operations.
func (q *promQuery) operations(more ...string) string {
	if q.method == mcp.MethodPromptsGet {
		return q.selector("mcp_method_name", "gen_ai_prompt_name", more...)
	}
	return q.selector("mcp_method_name", "gen_ai_tool_name", more...)
}

// rejectedArguments is the selector of calls whose arguments were rejected.
func (q *promQuery) rejectedArguments() string {
	if q.tool == "" {
		return ""
	}
	q.selects = true
	return fmt.Sprintf("{tool=%q}", q.tool)
}

// textOf returns the query of a measure.
func (q *promQuery) textOf(c *changes.Change) string {
	counted := func(by, metric, selector string) string {
		return fmt.Sprintf("sum by (%s) (rate(%s%s[1m]))", by, metric, selector)
	}
	mean := func(metric, selector string) string {
		return fmt.Sprintf("sum(rate(%[1]s_sum%[2]s[1m])) / sum(rate(%[1]s_count%[2]s[1m]))", metric, selector)
	}
	calls := MetricOperationDuration + "_count"
	switch c.Measure {
	case changes.MeasureErrors:
		return counted("error_type", calls, q.operations(`error_type!~"|client_cancel|client_disconnect|session_delete|session_idle"`))
	case changes.MeasureCallerErrors:
		if c.Reason == reasonArguments {
			return counted("tool", MetricArgumentsRejected, q.rejectedArguments())
		}
		return counted("rpc_response_status_code", calls, q.operations(`error_type=""`))
	case changes.MeasureCancelled:
		return counted("cause", MetricRequestsCancelled, q.selector("method", "tool"))
	case changes.MeasureDropped:
		return counted("reason", MetricResponsesDropped, q.selector("method", "tool"))
	case changes.MeasureRejected:
		return counted("reason", MetricRequestsRejected, "")
	case changes.MeasureExpired:
		return counted("reason", MetricResponsesExpired, "")
	case changes.MeasureRunning:
		return mean(MetricOperationDuration, q.operations())
	case changes.MeasureQueued:
		return mean(MetricQueueWait, "")
	case changes.MeasureBlocked:
		return mean(MetricClientDuration, "")
	case changes.MeasureWriting:
		return mean(MetricWrite, "")
	case changes.MeasureAnswerBytes:
		return mean(MetricResponseBytes, q.selector("method", "tool"))
	case changes.MeasureRequestBytes:
		return mean(MetricRequestBytes, q.selector("method", "tool"))
	}
	return fmt.Sprintf("sum(rate(%s%s[1m]))", calls, q.operations())
}
