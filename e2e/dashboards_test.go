package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

// A dashboard is what the tests read of one in dashboards/.
type dashboard struct {
	file       string
	Title      string
	Panels     []panel
	Templating struct {
		List []struct {
			Name, Type, AllValue string
			Query                any
		}
	}
}

// A panel is one picture of a dashboard, or the title of a row.
type panel struct {
	Type, Title, Description string
	GridPos                  struct{ X, Y, W, H int }
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []struct {
		Expr, LegendFormat, Format string
		Instant, Exemplar          bool
	}
}

// readDashboards reads all that are committed.
func readDashboards(t *testing.T) (all []dashboard) {
	t.Helper()
	names, err := filepath.Glob("../dashboards/*.json")
	if err != nil || len(names) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		d := dashboard{file: filepath.Base(name)}
		if err == nil {
			err = json.Unmarshal(text, &d)
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
	}
	return all
}

// A ruleFile is what the tests read of dashboards/rules.yml.
type ruleFile struct {
	Groups []struct {
		Rules []struct{ Record, Alert, Expr string }
	}
}

func readRules(t *testing.T) (file ruleFile) {
	t.Helper()
	text, err := os.ReadFile("../dashboards/rules.yml")
	if err == nil {
		err = yaml.Unmarshal(text, &file)
	}
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// filled puts values in the place of variables, as Grafana does. The intervals are such
// that all of a test is in them.
func (d *dashboard) filled(expr string) string {
	pairs := []string{"$__rate_interval", "10m", "$__range", "1h"}
	for _, v := range d.Templating.List {
		pairs = append(pairs, "$"+v.Name, v.AllValue)
	}
	return strings.NewReplacer(pairs...).Replace(expr)
}

// labelSets are the labels that each metric has, by its name.
type labelSets map[string]map[string]bool

// add takes in what a server exposes, under the names that Prometheus stores it by.
func (l labelSets) add(m metrics) {
	for name, family := range m {
		parts := []string{""}
		if slices.ContainsFunc(family.GetMetric(), func(metric *dto.Metric) bool { return metric.GetHistogram() != nil }) {
			parts = []string{"_bucket", "_sum", "_count"}
		}
		for _, part := range parts {
			set := l[name+part]
			if set == nil {
				set = map[string]bool{"job": true, "instance": true, "le": part == "_bucket"}
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

// check parses an expression, and looks for each metric and label in what is exposed.
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

var legendLabel = regexp.MustCompile(`{{(\w+)}}`)

// TestExpressions: each expression of a dashboard or a rule can be parsed, and each metric
// and label in it is exposed by a server after all sorts of trouble.
func TestExpressions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.provoke(t, 1)
	exposed := labelSets{}
	for _, s := range w.servers() {
		exposed.add(s.metrics(t))
	}
	file := readRules(t)
	for _, group := range file.Groups {
		for _, r := range group.Rules {
			if r.Record != "" {
				exposed[r.Record] = map[string]bool{"job": true, "gen_ai_tool_name": true, "service": true}
			}
		}
	}
	n := 0
	for _, group := range file.Groups {
		for _, r := range group.Rules {
			n++
			if err := exposed.check(r.Expr); err != nil {
				t.Errorf("rules.yml: %s%s: %v", r.Record, r.Alert, err)
			}
		}
	}
	for _, d := range readDashboards(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				n++
				if err := exposed.check(d.filled(target.Expr)); err != nil {
					t.Errorf("%s: %s: %v\n%s", d.file, p.Title, err, target.Expr)
				}
				for _, m := range legendLabel.FindAllStringSubmatch(target.LegendFormat, -1) {
					if !keeps(d.filled(target.Expr), m[1]) {
						t.Errorf("%s: %s: the legend shows %s, which the answer does not have", d.file, p.Title, m[1])
					}
				}
			}
		}
		for _, v := range d.Templating.List {
			if v.Type != "query" {
				continue
			}
			expr, label := labelValues(v.Query)
			if err := exposed.check("sum by (" + label + ") (" + d.filled(expr) + ")"); err != nil {
				t.Errorf("%s: variable %s: %v", d.file, v.Name, err)
			}
		}
	}
	if n < 100 {
		t.Errorf("%d expressions were checked", n)
	}
}

// keeps reports whether the answer of an expression has a label.
func keeps(expr, label string) bool {
	tree, err := parser.ParseExpr(expr)
	if err != nil {
		return false
	}
	for {
		switch n := tree.(type) {
		case *parser.ParenExpr:
			tree = n.Expr
		case *parser.BinaryExpr:
			if tree = n.LHS; n.LHS.Type() == parser.ValueTypeScalar || isCall(n.LHS, "time") {
				tree = n.RHS
			}
		case *parser.Call: // one of the arguments is the vector
			at := slices.IndexFunc(n.Args, func(e parser.Expr) bool {
				return e.Type() == parser.ValueTypeVector || e.Type() == parser.ValueTypeMatrix
			})
			if at < 0 {
				return false
			}
			tree = n.Args[at]
		case *parser.AggregateExpr:
			return slices.Contains(n.Grouping, label)
		case *parser.MatrixSelector:
			return true
		default:
			return true // all labels are there
		}
	}
}

func isCall(e parser.Expr, name string) bool {
	call, ok := e.(*parser.Call)
	return ok && call.Func.Name == name
}

// labelValues reads the query of a variable: label_values(selector, label).
func labelValues(query any) (expr, label string) {
	text := fmt.Sprint(query.(map[string]any)["query"])
	text = strings.TrimSuffix(strings.TrimPrefix(text, "label_values("), ")")
	at := strings.LastIndex(text, ", ")
	return text[:at], text[at+2:]
}

// TestExpressionsAreChecked: the check notices what does not exist.
func TestExpressionsAreChecked(t *testing.T) {
	l := labelSets{"a_total": {"job": true, "tool": true}}
	for _, expr := range []string{
		`rate(b_total[5m])`, `a_total{reason="x"}`, `sum by (reason) (a_total)`, `a_total / on (reason) a_total`, `rate(a_total)`, `a_total{`,
	} {
		if l.check(expr) == nil {
			t.Errorf("%s passes", expr)
		}
	}
	if err := l.check(`sum by (tool) (rate(a_total{job="x"}[5m])) / on (tool) a_total`); err != nil {
		t.Error(err)
	}
	if keeps(`sum by (a) (b)`, "c") || !keeps(`1 - sum by (a) (b)`, "a") || keeps(`histogram_quantile(0.9, sum by (le) (rate(b[1m])))`, "a") {
		t.Error("a label of the legend is found where there is none")
	}
}
