package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// A dashboard has those parts of a file in dashboards/ that the tests read.
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

// readDashboards reads all committed dashboards.
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

// A ruleFile has those parts of dashboards/rules.yml that the tests read.
type ruleFile struct {
	Groups []struct {
		Rules []struct {
			Record, Alert, Expr string
			Labels              map[string]string
		}
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

// filled replaces variables by values, as Grafana does. The intervals are long enough for a whole
// test.
func (d *dashboard) filled(expr string) string { return d.filledOver(expr, time.Hour) }

// filledOver is filled for a dashboard of the time over, until now.
func (d *dashboard) filledOver(expr string, over time.Duration) string {
	pairs := []string{"$__rate_interval", "10m", "$__range", fmt.Sprintf("%ds", int(over.Seconds()))}
	for _, v := range d.Templating.List {
		pairs = append(pairs, "$"+v.Name, v.AllValue)
	}
	return strings.NewReplacer(pairs...).Replace(expr)
}

var legendLabel = regexp.MustCompile(`{{(\w+)}}`)

// Each expression of a dashboard or a rule can be parsed, and a server exposes each metric and
// label in it after many kinds of trouble.
func TestExpressionsNameExposedMetrics(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.provoke(t, 1)
	exposed := labelSets{}
	for _, s := range w.servers() {
		exposed.add(s.metrics(t))
	}
	exposed["up"] = map[string]bool{} // Prometheus makes it of each scrape
	file := readRules(t)
	n := 0
	for _, group := range file.Groups {
		for _, r := range group.Rules {
			n++
			if r.Record != "" { // a rule uses only metrics that earlier rules have recorded, or it has itself
				exposed[r.Record] = exposed.left(t, r.Expr)
				for name := range r.Labels {
					exposed[r.Record][name] = true
				}
			}
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
				left := exposed.left(t, d.filled(target.Expr))
				for _, m := range legendLabel.FindAllStringSubmatch(target.LegendFormat, -1) {
					if !left[m[1]] {
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

// labelValues reads the query of a variable: label_values(selector, label).
func labelValues(query any) (expr, label string) {
	text := fmt.Sprint(query.(map[string]any)["query"])
	text = strings.TrimSuffix(strings.TrimPrefix(text, "label_values("), ")")
	at := strings.LastIndex(text, ", ")
	return text[:at], text[at+2:]
}
