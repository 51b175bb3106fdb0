package main

import (
	"fmt"
	"strings"

	"github.com/vitrine-mcp/vitrine/telemetry"
)

// windows are the windows of the recorded ratios.
var windows = []string{"5m", "30m", "1h", "2h", "6h", "3d"}

// longest is the last of the windows.
var longest = windows[len(windows)-1]

// The names of recording rules. They have a series for each namespace, job and tool. Requests that
// are no tool calls have an empty tool.
const (
	recordServed    = "vitrine:served:rate"      // requests per second without faults of callers
	recordFailed    = "vitrine:failed:rate"      // failed requests per second
	recordFailing   = "vitrine:failed:ratio"     // the share of failed requests
	recordSucceeded = "vitrine:succeeded:rate"   // requests per second without any error
	recordSlow      = "vitrine:slow:rate"        // those that took longer than the objective
	recordSlowing   = "vitrine:slow:ratio"       // the share of slow requests
	recordBudget    = "vitrine:failed:objective" // the share that may fail
	recordSlowable  = "vitrine:slow:objective"   // the share that may be slow
)

// toolLabels are the labels of objectives. Two releases in two namespaces may have the same name,
// which is their job. Outside of a cluster the namespace is empty.
const toolLabels = "(namespace, job, gen_ai_tool_name)"

const byTool = "sum by " + toolLabels + " "

// callerCauses are the causes of cancellations by clients.
var callerCauses = []string{"client_cancel", "client_disconnect", "session_delete", "session_idle"}

// operations selects durations of requests. Notifications have durations, but no outcomes.
func operations(s source, part string, matchers ...matcher) string {
	return s.of(telemetry.MetricOperationDuration+part,
		append([]matcher{{"mcp_method_name", "!~", []string{"notifications/.*"}}}, matchers...)...)
}

// served is the rate of the requests that count for an objective. Faults of callers do not count. An
// answer with a code and without error_type is a fault of the caller. A call whose arguments were
// rejected has neither, so it is subtracted. A request that its client cancelled has the cause as
// error_type, and none in versions before; it is added and subtracted, so both count for nothing. The
// answer of a cancelled legacy request has the code -32800. Subscriptions count as served and are not
// subtracted when they end.
func served(s source, window string) string {
	return fmt.Sprintf(`clamp_min(%s(
  %s
  or rate(%s[%s])
  %s
  %s
), 0)`, byTool, faulty(s, window),
		operations(s, "_count", is("error_type", append([]string{""}, callerCauses...)...), is("rpc_response_status_code", "", "-32800")), window,
		cancelled(s, window, "-", callerCauses...), unlessRejected(s, window))
}

// unlessRejected subtracts the rate of calls whose arguments were rejected. The expression continues
// a list.
func unlessRejected(s source, window string) string {
	return fmt.Sprintf(`or -label_replace(rate(%s[%s]), "gen_ai_tool_name", "$1", "tool", "(.*)")`, s.of(telemetry.MetricArgumentsRejected, isNot("tool", "")), window)
}

func failed(s source, window string) string {
	return byTool + "(\n  " + faulty(s, window) + "\n)"
}

// faulty is the rate of failed requests. The durations of requests that a shutdown cancels are in the
// last scrape of a process only, so they have no rate. The counter of cancelled requests has a
// rate, because it exists with 0 before.
func faulty(s source, window string) string {
	return fmt.Sprintf("rate(%s[%s])\n  %s", operations(s, "_count", isNot("error_type", append([]string{"", cutCause}, callerCauses...)...)), window, cancelled(s, window, "", cutCause))
}

// cutCause is the cause, and the error_type, of a call that a shutdown cancelled.
const cutCause = "server_shutdown"

// cancelled is the rate of requests that were cancelled for these causes, with the labels of
// durations. The expression continues a list.
func cancelled(s source, window, sign string, causes ...string) string {
	rate := func(method matcher) string {
		return "rate(" + s.of(telemetry.MetricRequestsCancelled, method, is("cause", causes...)) + "[" + window + "])"
	}
	return fmt.Sprintf("or %[1]slabel_replace(%[2]s, \"gen_ai_tool_name\", \"$1\", \"tool\", \"(.*)\")\n  or %[1]s%[3]s", sign,
		rate(is("method", "tools/call")), rate(isNot("method", "tools/call", "subscriptions/listen")))
}

// availability records the rates of served and failed requests, and their ratio.
func availability(c *config) (list []rule) {
	s := c.source()
	for _, w := range windows {
		list = append(list,
			rule{Record: recordServed + w, Expr: served(s, w)},
			rule{Record: recordFailed + w, Expr: failed(s, w) + "\n  or on " + toolLabels + " " + s.recorded(recordServed+w) + " * 0"},
			rule{Record: recordFailing + w, Expr: fmt.Sprintf("%s / (%s > 0)", s.recorded(recordFailed+w), s.recorded(recordServed+w))})
	}
	return append(list, objectives(c, recordBudget, recordServed, func(o objective) string { return budget(o.Availability) }, ""))
}

// latency records the rates of requests without an error and of slow ones, and their ratio.
func latency(c *config) (list []rule) {
	s := c.source()
	good := []matcher{is("error_type", ""), is("rpc_response_status_code", "")}
	for _, w := range windows {
		list = append(list, rule{
			Record: recordSucceeded + w, Expr: "clamp_min(" + byTool + "(\n  rate(" + operations(s, "_count", good...) + "[" + w + "])\n  " + unlessRejected(s, w) + "\n), 0)",
		})
		var slow []string
		for _, o := range c.scopes() {
			if o.Latency <= 0 {
				continue
			}
			these := append(o.matchers(), good...)
			slow = append(slow, fmt.Sprintf("%s(rate(%s[%s]))\n  - %s(rate(%s[%s]))",
				byTool, operations(s, "_count", these...), w, byTool, operations(s, "_bucket", append(these, bound(o.Latency))...), w))
		}
		if len(slow) == 0 {
			return nil
		}
		list = append(list,
			rule{Record: recordSlow + w, Expr: "clamp_min(\n  " + strings.Join(slow, "\n  or ") + "\n, 0)"},
			rule{Record: recordSlowing + w, Expr: fmt.Sprintf("%s / (%s > 0)", s.recorded(recordSlow+w), s.recorded(recordSucceeded+w))})
	}
	return append(list, objectives(c, recordSlowable, recordSucceeded, func(o objective) string {
		if o.Latency <= 0 {
			return ""
		}
		return budget(o.Fast)
	}, streaming(s)))
}

// A scope selects the requests of an objective.
type scope struct {
	objective
	tool string   // this one; or
	but  []string // all but these
}

// scopes returns the scopes of the tools with their own objective, and of all other requests.
func (c *config) scopes() []scope {
	list := []scope{{objective: c.Objective, but: c.toolNames()}}
	for _, tool := range c.toolNames() {
		list = append(list, scope{objective: c.objectiveOf(tool), tool: tool})
	}
	return list
}

func (s scope) matchers() []matcher {
	switch {
	case s.tool != "":
		return []matcher{is("gen_ai_tool_name", s.tool)}
	case len(s.but) > 0:
		return []matcher{isNot("gen_ai_tool_name", quoted(s.but)...)}
	}
	return nil
}

// quoted escapes names for a regular expression, which they become if there are several.
func quoted(names []string) []string {
	if len(names) < 2 {
		return names
	}
	all := make([]string, len(names))
	for i, n := range names {
		all[i] = strings.ReplaceAll(n, ".", "[.]") // names of tools have no other special characters
	}
	return all
}

// streaming leaves out tools that stream: how long their calls last says nothing about their health. It looks back as
// far as the rates do: they still have the calls of a tool when its server is down or a release has removed it.
func streaming(s source) string {
	return "\n  unless on " + toolLabels + " max by " + toolLabels + " (last_over_time(" + s.of(telemetry.MetricToolsStreaming) + "[" + longest + "]))"
}

// objectives records the objectives, so that one alert and one panel work for all tools. The objective
// that names no tool is for all tools but those that unless leaves out.
func objectives(c *config, record, of string, value func(objective) string, unless string) rule {
	var all []string
	for _, o := range c.scopes() {
		if v := value(o.objective); v != "" {
			expr := c.source().recorded(of+longest, o.matchers()...) + " * 0 + " + v
			if o.tool == "" {
				expr += unless
			}
			all = append(all, expr)
		}
	}
	return rule{Record: record, Expr: strings.Join(all, "\nor ")}
}

// A burning describes the alerts about one kind of budget.
type burning struct {
	name                       string
	rate, ratio, budget, total string // names of recording rules
	what, anchor               string
}

var (
	failures = burning{
		"VitrineErrorBudget", recordFailed, recordFailing, recordBudget, recordServed, "fail", "by-symptom",
	}
	slowness = burning{
		"VitrineLatencyBudget", recordSlow, recordSlowing, recordSlowable, recordSucceeded,
		"take longer than promised", "1-a-tool-hangs",
	}
)

// burns returns the alerts about a budget: it is spent so fast that the budget of 30 days lasts two
// days, five days, or 30 days. With the short window an alert ends soon after its cause.
func burns(c *config, b burning) (list []rule) {
	if b == slowness && len(latency(c)) == 0 {
		return nil
	}
	s := c.source()
	for _, speed := range []struct {
		name, factor, long, short, lasting, severity string
		hours                                        int
	}{
		{"Fast", "14.4", "1h", "5m", "2m", page, 1},
		{"Slow", "6", "6h", "30m", "15m", page, 6},
		{"Steady", "1", "3d", "6h", "1h", ticket, 72},
	} {
		over := func(window string) string {
			return fmt.Sprintf("%s > %s * %s", s.recorded(b.ratio+window), speed.factor, s.recorded(b.budget))
		}
		least := func(rate string, n int) string {
			return fmt.Sprintf("%s * %d >= %d", s.recorded(rate+speed.long), speed.hours*3600, n)
		}
		list = append(list, rule{
			Alert: b.name + speed.name,
			Expr: strings.Join([]string{
				over(speed.long), over(speed.short), least(b.total, c.Minimum.Requests), least(b.rate, c.Minimum.Failures),
			}, "\n  and "),
			For: speed.lasting, Labels: map[string]string{"severity": speed.severity},
			Annotations: c.annotations(b.anchor,
				"{{ with $labels.gen_ai_tool_name }}Calls of {{ . }}{{ else }}Requests that are no tool calls{{ end }} "+b.what+
					": {{ with $labels.namespace }}{{ . }}/{{ end }}{{ $labels.job }}",
				"{{ $value | humanizePercentage }} of them in the last "+speed.long+", without what their callers have spoilt: "+
					speed.factor+" times what the objective allows, or more."),
		})
	}
	return list
}
