package e2e

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/needs"
)

var drawTo = flag.String("dashboards", "", "folder to draw the dashboards to, with what Prometheus answers")

// A line is one series of an answer: its times and values.
type line struct {
	legend string
	labels map[string]string
	points [][2]float64
}

// shown asks the query of a panel, as Grafana does, from a moment until now. It fails if
// the answer has no number.
func (p *prometheus) shown(expr, legend string, instant bool, from time.Time) (lines []line, err error) {
	var data struct {
		Result []struct {
			Metric map[string]string
			Value  [2]any
			Values [][2]any
		}
	}
	now := time.Now()
	query := url.Values{"query": {expr}}
	if instant {
		err = p.api("query", query, &data)
	} else {
		query.Set("start", fmt.Sprint(from.Unix()))
		query.Set("end", fmt.Sprint(now.Unix()))
		query.Set("step", fmt.Sprint(max(1, now.Sub(from).Seconds()/200)))
		err = p.api("query_range", query, &data)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", expr, err)
	}
	for _, r := range data.Result {
		if instant {
			r.Values = [][2]any{r.Value}
		}
		l := line{labels: r.Metric}
		l.legend = legendLabel.ReplaceAllStringFunc(legend, func(m string) string { return r.Metric[m[2:len(m)-2]] })
		for _, v := range r.Values {
			at, _ := v[0].(float64)
			value, err := strconv.ParseFloat(fmt.Sprint(v[1]), 64)
			if err != nil {
				return nil, err
			}
			if !math.IsNaN(value) && !math.IsInf(value, 0) {
				l.points = append(l.points, [2]float64{at, value})
			}
		}
		if len(l.points) > 0 {
			lines = append(lines, l)
		}
	}
	if len(lines) == 0 {
		return nil, fmt.Errorf("no data: %s", expr)
	}
	return lines, nil
}

// checkHealth makes sure that Prometheus can evaluate every rule, and that all the trouble has left no answer
// unaccounted for. A scrape may find one while its fate is being counted.
func (p *prometheus) checkHealth() error {
	var data struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	if err := p.api("rules", nil, &data); err != nil {
		return err
	}
	var faults []error
	rules := 0
	for _, g := range data.Groups {
		for _, r := range g.Rules {
			rules++
			if r.Health != "ok" {
				faults = append(faults, fmt.Errorf("rule %s: %s: %s", r.Name, r.Health, r.LastError))
			}
		}
	}
	if rules == 0 {
		faults = append(faults, errors.New("no rules"))
	}
	if lines, err := p.shown(`ALERTS{alertname="VitrineAnswersUnaccounted"}`, "", true, time.Now()); err == nil {
		faults = append(faults, fmt.Errorf("answers were unaccounted for: %+v", lines))
	}
	return errors.Join(faults...)
}

// After many kinds of trouble no panel is empty, exemplars lead to traces, and the variables have
// values. One server is in a namespace, and the others are in none.
func TestNoPanelIsEmpty(t *testing.T) {
	needs.Long(t, "e2e/prometheus")
	needs.Tool(t, "e2e/prometheus", "prometheus")
	t.Parallel()
	begun := time.Now()
	rules, err := filepath.Abs("../dashboards/rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	prom := runPrometheus(t, "exemplar-storage", fmt.Sprintf("global: {scrape_interval: 2s, scrape_timeout: 2s, evaluation_interval: 10s}\n"+
		"rule_files: [%q]\nscrape_configs: [{job_name: mcp, static_configs: [{targets: %s}, {targets: %s, labels: {namespace: a}}]}]\n",
		rules, encode(instances(w.servers()[1:])), encode(instances(w.servers()[:1]))))
	scraped := func() {
		for _, s := range w.servers() {
			prom.scraped(t, s)
		}
	}
	scraped()
	for _, n := range []int{1, 4} {
		w.provoke(t, n)
		scraped()
	}
	for _, d := range readDashboards(t) {
		picture := sketch{title: d.Title}
		for _, p := range d.Panels {
			var lines []line
			for _, target := range p.Targets {
				expr := d.filled(target.Expr)
				eventually(t, func() error {
					answer, err := prom.shown(expr, target.LegendFormat, target.Instant, begun)
					if err != nil {
						return fmt.Errorf("%s: %s: %w", d.file, p.Title, err)
					}
					lines = append(lines, answer...)
					return nil
				})
				if target.Exemplar {
					eventually(t, func() error {
						traces, err := prom.exemplars(expr)
						if err == nil && len(traces) == 0 {
							err = fmt.Errorf("%s: %s: no exemplar", d.file, p.Title)
						}
						return err
					})
				}
			}
			picture.add(p, lines)
		}
		for _, v := range d.Templating.List {
			if v.Type != "query" {
				continue
			}
			expr, label := labelValues(v.Query)
			if lines, err := prom.shown("count by ("+label+") ("+d.filled(expr)+")", "", true, begun); err != nil || lines[0].labels[label] == "" && len(lines) < 2 {
				t.Errorf("%s: variable %s: %v %v", d.file, v.Name, lines, err)
			}
		}
		if *drawTo != "" {
			if err := os.WriteFile(filepath.Join(*drawTo, d.file+".html"), []byte(picture.html()), 0o600); err != nil {
				t.Error(err)
			}
		}
	}
	eventually(t, prom.checkHealth)
}
