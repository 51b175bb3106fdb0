package e2e

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/prometheus/promql/parser"
)

// labelSets are the labels that each metric has, by its name.
type labelSets map[string]map[string]bool

// add adds the metrics of a server with the names in Prometheus, and with the labels that
// Prometheus adds, including that of a cluster.
func (l labelSets) add(m metrics) {
	for name, family := range m {
		parts := []string{""}
		if slices.ContainsFunc(family.GetMetric(), func(metric *dto.Metric) bool { return metric.GetHistogram() != nil }) {
			parts = []string{"_bucket", "_sum", "_count"}
		}
		for _, part := range parts {
			set := l[name+part]
			if set == nil {
				set = map[string]bool{"namespace": true, "job": true, "instance": true, "le": part == "_bucket"}
				l[name+part] = set
			}
			for _, metric := range family.GetMetric() {
				for _, pair := range metric.GetLabel() {
					set[pair.GetName()] = true
				}
				set["quantile"] = set["quantile"] || metric.GetSummary() != nil
			}
		}
	}
}

// check parses an expression, and returns an error if one of its metrics or labels is not exposed.
func (l labelSets) check(expr string) error {
	tree, err := parser.ParseExpr(expr)
	if err != nil {
		return err
	}
	var faults []error
	selected := map[string]bool{} // labels of any metric of the expression
	parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
		s, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		set, ok := l[s.Name]
		if !ok {
			faults = append(faults, fmt.Errorf("nothing exposes %s", s.Name))
		}
		for _, m := range s.LabelMatchers {
			if ok && m.Name != "__name__" && !set[m.Name] {
				faults = append(faults, fmt.Errorf("%s has no label %s", s.Name, m.Name))
			}
		}
		for name, has := range set {
			selected[name] = selected[name] || has
		}
		return nil
	})
	parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
		var names []string
		switch n := node.(type) {
		case *parser.AggregateExpr:
			names = n.Grouping
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				names = slices.Concat(n.VectorMatching.MatchingLabels, n.VectorMatching.Include)
			}
		}
		for _, name := range names {
			if !selected[name] {
				faults = append(faults, fmt.Errorf("no metric here has the label %s", name))
			}
		}
		return nil
	})
	return errors.Join(faults...)
}

// left parses an expression, and returns the labels that its answer may have.
func (l labelSets) left(t *testing.T, expr string) map[string]bool {
	t.Helper()
	tree, err := parser.ParseExpr(expr)
	if err != nil {
		t.Fatal(err)
	}
	return l.after(tree)
}

// after returns a copy of the labels that are left after a part of an expression.
func (l labelSets) after(tree parser.Expr) map[string]bool {
	set := map[string]bool{}
	switch n := tree.(type) {
	case *parser.VectorSelector:
		maps.Copy(set, l[n.Name])
	case *parser.MatrixSelector:
		return l.after(n.VectorSelector)
	case *parser.SubqueryExpr:
		return l.after(n.Expr)
	case *parser.ParenExpr:
		return l.after(n.Expr)
	case *parser.UnaryExpr:
		return l.after(n.Expr)
	case *parser.AggregateExpr:
		inner := l.after(n.Expr)
		if n.Without {
			maps.Copy(set, inner)
		}
		for _, name := range n.Grouping {
			set[name] = !n.Without && inner[name]
		}
	case *parser.BinaryExpr:
		return l.afterBoth(n)
	case *parser.Call:
		for _, arg := range n.Args {
			if arg.Type() == parser.ValueTypeVector || arg.Type() == parser.ValueTypeMatrix {
				set = l.after(arg)
			}
		}
		switch n.Func.Name {
		case "label_replace", "label_join":
			set[n.Args[1].(*parser.StringLiteral).Val] = true
		case "histogram_quantile":
			set["le"] = false
		}
	}
	return set
}

// afterBoth returns the labels that are left of two sides.
func (l labelSets) afterBoth(n *parser.BinaryExpr) map[string]bool {
	left, right, m := l.after(n.LHS), l.after(n.RHS), n.VectorMatching
	switch {
	case m == nil: // one of them is a number, which has none
		maps.Copy(left, right)
	case n.Op == parser.LOR:
		for name, has := range right {
			left[name] = left[name] || has
		}
	case n.Op.IsSetOperator(): // and, unless
	case m.Card == parser.CardOneToMany:
		left, right = right, left
		fallthrough
	case m.Card == parser.CardManyToOne:
		for _, name := range m.Include {
			left[name] = right[name]
		}
	case m.On:
		maps.DeleteFunc(left, func(name string, _ bool) bool { return !slices.Contains(m.MatchingLabels, name) })
	default:
		for _, name := range m.MatchingLabels {
			left[name] = false
		}
	}
	return left
}

// The check finds metrics and labels that do not exist, and knows which labels an expression
// leaves.
func TestExpressionsAreChecked(t *testing.T) {
	l := labelSets{"a_total": {"job": true, "tool": true}, "b_bucket": {"le": true, "reason": true}}
	for _, expr := range []string{
		`rate(c_total[5m])`, `a_total{reason="x"}`, `sum by (reason) (a_total)`, `a_total / on (reason) a_total`, `rate(a_total)`, `a_total{`,
	} {
		if l.check(expr) == nil {
			t.Errorf("%s passes", expr)
		}
	}
	if err := l.check(`sum by (tool) (rate(a_total{job="x"}[5m])) / on (tool) a_total`); err != nil {
		t.Error(err)
	}
	for expr, want := range map[string][]string{
		`a_total`:                           {"job", "tool"},
		`rate(a_total[5m])`:                 {"job", "tool"},
		`max_over_time(a_total[5m:1m])`:     {"job", "tool"},
		`clamp_min(-(1 - a_total), 0)`:      {"job", "tool"},
		`sum by (job, reason) (a_total)`:    {"job"},
		`sum without (job) (a_total)`:       {"tool"},
		`sum(a_total)`:                      {},
		`time() - b_bucket`:                 {"le", "reason"},
		`histogram_quantile(0.9, b_bucket)`: {"reason"},
		`label_replace(b_bucket, "tool", "$1", "reason", "(.*)")`: {"le", "reason", "tool"},
		`a_total or b_bucket`:                       {"job", "le", "reason", "tool"},
		`a_total and b_bucket`:                      {"job", "tool"},
		`a_total > on (job) a_total`:                {"job"},
		`a_total / ignoring (job) a_total`:          {"tool"},
		`a_total / on () group_left (le) b_bucket`:  {"job", "le", "tool"},
		`b_bucket / on () group_right (le) a_total`: {"job", "le", "tool"},
	} {
		set := l.left(t, expr)
		maps.DeleteFunc(set, func(_ string, has bool) bool { return !has })
		if got := slices.Sorted(maps.Keys(set)); !slices.Equal(got, want) {
			t.Errorf("%s has the labels %v, want %v", expr, got, want)
		}
	}
}
