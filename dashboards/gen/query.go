package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vitrine-mcp/vitrine/telemetry"
)

// A matcher selects series by one label.
type matcher struct {
	label, op string
	values    []string
}

// is matches any of the values, isNot none of them. An empty value matches an absent label.
func is(label string, values ...string) matcher    { return matcher{label, "=", values} }
func isNot(label string, values ...string) matcher { return matcher{label, "!=", values} }

func (m matcher) String() string {
	op, value := m.op, m.values[0]
	if len(m.values) > 1 {
		op = map[string]string{"=": "=~", "!=": "!~"}[m.op]
		value = strings.Join(m.values, "|")
	}
	return fmt.Sprintf("%s%s%q", m.label, op, value)
}

// A source is the common part of the selectors of a file.
type source struct {
	// selector has the matchers of the configuration in PromQL.
	selector string
	// service is the label of recorded series, so that one Prometheus can have the rules of
	// several configurations.
	service string
	// filters tells that the variables of a dashboard filter the series.
	filters bool
}

// catalogue has the metrics of every server by name.
var catalogue = func() map[string]telemetry.Metric {
	all := map[string]telemetry.Metric{}
	for _, m := range telemetry.Catalogue() {
		all[m.Name] = m
	}
	return all
}()

// variables has the variables of a dashboard by label.
var variables = map[string]string{
	"method": "method", "mcp_method_name": "method", "tool": "tool", "gen_ai_tool_name": "tool",
}

// of selects series of a metric of the catalogue. For a histogram the name has the suffix _bucket,
// _sum or _count. It panics if no server has such a metric, label or value.
func (s source) of(name string, matchers ...matcher) string {
	metric, part := catalogue[name], ""
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(name, suffix); ok && metric.Name == "" && catalogue[base].Kind == telemetry.Histogram {
			metric, part = catalogue[base], suffix
		}
	}
	if metric.Name == "" || (metric.Kind == telemetry.Histogram) != (part != "") {
		panic(fmt.Sprintf("no server exposes %s", name))
	}
	for _, m := range matchers {
		at := slices.IndexFunc(metric.Labels, func(l telemetry.Label) bool { return l.Name == m.label })
		if m.label == "le" && part == "_bucket" {
			continue
		}
		if at < 0 {
			panic(fmt.Sprintf("%s has no label %s", name, m.label))
		}
		for _, v := range m.values {
			if closed := metric.Labels[at].Values; closed != nil && v != "" && !slices.Contains(closed, v) {
				panic(fmt.Sprintf("%s{%s} is never %q", name, m.label, v))
			}
		}
	}
	for _, l := range metric.Labels {
		if variable, ok := variables[l.Name]; ok && s.filters {
			matchers = append(matchers, anyOf(l.Name, variable))
		}
	}
	return s.with(name, matchers...)
}

// plain selects series of the Go runtime and the process, which are not in the catalogue.
func (s source) plain(name string, matchers ...matcher) string { return s.with(name, matchers...) }

// serviceLabel is the label of all recorded series.
const serviceLabel = "service"

// recorded selects series of a recording rule. They have a namespace, a job and a tool.
func (s source) recorded(name string, matchers ...matcher) string {
	all := []string{is(serviceLabel, s.service).String()}
	if s.filters {
		all = append(all, texts([]matcher{inNamespace, ofJob, anyOf("gen_ai_tool_name", "tool")})...)
	}
	return selector(name, append(all, texts(matchers)...))
}

// with adds the common part to a selector.
func (s source) with(name string, matchers ...matcher) string {
	var all []string
	if s.filters {
		all = append(all, texts([]matcher{inNamespace, ofJob, onInstance})...)
	}
	if s.selector != "" {
		all = append(all, s.selector)
	}
	return selector(name, append(all, texts(matchers)...))
}

// anyOf matches the selected values of a variable.
func anyOf(label, variable string) matcher {
	return matcher{label, "=~", []string{"$" + variable}}
}

// The filters by the labels of scrapes. A variable without a selection also matches an absent label.
var inNamespace, ofJob, onInstance = anyOf("namespace", "namespace"), anyOf("job", "job"), anyOf("instance", "instance")

func texts(matchers []matcher) (all []string) {
	for _, m := range matchers {
		all = append(all, m.String())
	}
	return all
}

func selector(name string, matchers []string) string {
	if len(matchers) == 0 {
		return name
	}
	return name + "{" + strings.Join(matchers, ",") + "}"
}
