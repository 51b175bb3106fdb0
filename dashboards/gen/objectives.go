package main

import (
	"fmt"
	"strings"

	"github.com/vitrine-mcp/vitrine/telemetry"
)

// windows are those over which ratios are recorded.
var windows = []string{"5m", "30m", "1h", "2h", "6h", "3d"}

// The names of what is recorded, for each namespace, job and tool. Requests that are no
// tool calls are together under no tool.
const (
	recordServed    = "vitrine:served:rate"      // requests a second without what their callers have spoilt
	recordFailed    = "vitrine:failed:rate"      // those of them that failed
	recordFailing   = "vitrine:failed:ratio"     // their share
	recordSucceeded = "vitrine:succeeded:rate"   // requests a second without any error
	recordSlow      = "vitrine:slow:rate"        // those of them that took longer than promised
	recordSlowing   = "vitrine:slow:ratio"       // their share
	recordBudget    = "vitrine:failed:objective" // the share that may fail
	recordSlowable  = "vitrine:slow:objective"   // the share that may be slow
)

// toolLabels are those that tell promises apart. Two releases in two namespaces may have
// one name, which is their job. Where Prometheus is not in a cluster there is no namespace,
// and the label is empty.
const toolLabels = "(namespace, job, gen_ai_tool_name)"

const byTool = "sum by " + toolLabels + " "

// callerCauses are the cancellations that are the client's own doing.
var callerCauses = []string{"client_cancel", "client_disconnect", "session_delete", "session_idle"}

// operations selects durations of requests. Notifications have one, but no outcome.
func operations(s source, part string, matchers ...matcher) string {
	return s.of(telemetry.MetricOperationDuration+part,
		append([]matcher{{"mcp_method_name", "!~", []string{"notifications/.*"}}}, matchers...)...)
}

// served is the rate of the requests that count. What the caller has spoilt does not: an
// answer with a code and without error_type is the caller's fault; a request that its
// client has cancelled has neither, as a success has, and is taken off again. The end of
// a cancelled legacy exchange has the code -32800, and so was taken off before. A
// subscription ends by a cancellation after it has counted as served.
func served(s source, window string) string {
	return fmt.Sprintf(`clamp_min(%s(
  %s
  or rate(%s[%s])
  %s
), 0)`, byTool, faulty(s, window),
		operations(s, "_count", is("error_type", ""), is("rpc_response_status_code", "", "-32800")), window,
		cancelled(s, window, "-", callerCauses...))
}

func failed(s source, window string) string {
	return byTool + "(\n  " + faulty(s, window) + "\n)"
}

// faulty are the rates of all that failed. What a shutdown cuts has durations that are
// seen once, in the last scrape of a process, and so have no rate. The counter of what it
// has cancelled was 0 before.
func faulty(s source, window string) string {
	return fmt.Sprintf("rate(%s[%s])\n  %s", operations(s, "_count", isNot("error_type", "", cutCause)), window, cancelled(s, window, "", cutCause))
}

// cutCause is that of a call that was cut by a shutdown, and then its error_type.
const cutCause = "server_shutdown"

// cancelled are the rates of what was cancelled for these causes, with the labels of
// durations. They continue a list.
func cancelled(s source, window, sign string, causes ...string) string {
	rate := func(method matcher) string {
		return "rate(" + s.of(telemetry.MetricRequestsCancelled, method, is("cause", causes...)) + "[" + window + "])"
	}
	return fmt.Sprintf("or %[1]slabel_replace(%[2]s, \"gen_ai_tool_name\", \"$1\", \"tool\", \"(.*)\")\n  or %[1]s%[3]s", sign,
		rate(is("method", "tools/call")), rate(isNot("method", "tools/call", "subscriptions/listen")))
}

// availability records who was served, and how many were failed.
func availability(c *config) (list []rule) {
	s := c.source()
	for _, w := range windows {
		list = append(list,
			rule{Record: recordServed + w, Expr: served(s, w)},
			rule{Record: recordFailed + w, Expr: failed(s, w) + "\n  or on " + toolLabels + " " + s.recorded(recordServed+w) + " * 0"},
			rule{Record: recordFailing + w, Expr: fmt.Sprintf("%s / (%s > 0)", s.recorded(recordFailed+w), s.recorded(recordServed+w))})
	}
	return append(list, objectives(c, recordBudget, recordServed, func(o objective) string { return budget(o.Availability) }))
}

// latency records how many of the requests without an error took longer than promised.
func latency(c *config) (list []rule) {
	s := c.source()
	good := []matcher{is("error_type", ""), is("rpc_response_status_code", "")}
	for _, w := range windows {
		list = append(list, rule{
			Record: recordSucceeded + w, Expr: byTool + "(rate(" + operations(s, "_count", good...) + "[" + w + "]))",
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
	}))
}

// A scope is the requests that an objective is for.
type scope struct {
	objective
	tool string   // this one; or
	but  []string // all but these
}

// scopes are the tools with objectives of their own, and all the rest.
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

// quoted protects names that become a regular expression when there are several.
func quoted(names []string) []string {
	if len(names) < 2 {
		return names
	}
	all := make([]string, len(names))
	for i, n := range names {
		all[i] = strings.ReplaceAll(n, ".", "[.]") // the one special character that names of tools have
	}
	return all
}

// objectives records what may fail, so that one alert and one panel serve all tools.
func objectives(c *config, record, of string, value func(objective) string) rule {
	longest := windows[len(windows)-1]
	var all []string
	for _, o := range c.scopes() {
		if v := value(o.objective); v != "" {
			all = append(all, c.source().recorded(of+longest, o.matchers()...)+" * 0 + "+v)
		}
	}
	return rule{Record: record, Expr: strings.Join(all, "\nor ")}
}

// A burning is what the alerts about one kind of budget say.
type burning struct {
	name                       string
	rate, ratio, budget, total string // what is recorded
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

// burns returns the alerts about a budget: spent so fast that 30 days' worth is gone in
// two days, in five, and in thirty. The short window lets an alert end soon after its
// cause.
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
