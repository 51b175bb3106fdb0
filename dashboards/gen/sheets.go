package main

import (
	"fmt"

	"github.com/vitrine-mcp/vitrine/telemetry"
)

// sheets returns the dashboards of a configuration.
func sheets(c *config) []sheet {
	b := board{c.source(), c}
	b.filters = true
	return []sheet{b.overview(), b.faults(), b.sessions(), b.tool(), b.health()}
}

// A board makes the panels of dashboards.
type board struct {
	source
	config *config
}

// rate returns the sum of a rate by the labels, or in all.
func (b board) rate(by, name string, matchers ...matcher) string {
	return sum(by) + "(rate(" + b.of(name, matchers...) + "[$__rate_interval]))"
}

// now returns the sum of a gauge.
func (b board) now(by, name string, matchers ...matcher) string {
	return sum(by) + "(" + b.of(name, matchers...) + ")"
}

// quantile returns a quantile of the classic buckets of a histogram.
func (b board) quantile(q float64, by, name string, matchers ...matcher) string {
	if by != "" {
		by += ", "
	}
	return fmt.Sprintf("histogram_quantile(%v, %s)", q, b.rate(by+"le", name+"_bucket", matchers...))
}

// quantiles returns three quantiles with exemplars.
func (b board) quantiles(name string, matchers ...matcher) (list []target) {
	for _, q := range []float64{0.5, 0.95, 0.99} {
		list = append(list, traced(b.quantile(q, "", name, matchers...), fmt.Sprintf("p%v", q*100)))
	}
	return list
}

// counted returns the rate of a histogram's observations. It uses the largest bucket and not the
// count, because only buckets have exemplars.
func (b board) counted(by, name string, matchers ...matcher) string {
	return "max by (" + by + ") (" + b.rate(by+", le", name+"_bucket", matchers...) + ")"
}

// mean returns the mean value of a histogram.
func (b board) mean(by, name string, matchers ...matcher) string {
	return b.rate(by, name+"_sum", matchers...) + " / (" + b.rate(by, name+"_count", matchers...) + " > 0)"
}

// share returns the ratio of two rates.
func share(part, whole string) string { return part + " / on () group_left () (" + whole + " > 0)" }

func sum(by string) string {
	if by == "" {
		return "sum "
	}
	return "sum by (" + by + ") "
}

const (
	operation = telemetry.MetricOperationDuration
	perSecond = "reqps"
	percent   = "percentunit"
)

// requests leaves out notifications, which have a duration but no outcome.
var requests = matcher{"mcp_method_name", "!~", []string{"notifications/.*"}}

// calls are the calls of tools.
var calls = is("mcp_method_name", "tools/call")

// failing matches errors of the service, spoilt faults of callers.
var (
	failing = isNot("error_type", append([]string{""}, callerCauses...)...)
	spoilt  = []matcher{is("error_type", ""), isNot("rpc_response_status_code", "")}
)
