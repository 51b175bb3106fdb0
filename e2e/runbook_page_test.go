package e2e

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vitrine-mcp/vitrine/telemetry"
)

// A question is one of docs/runbook.md, with its commands in the order of the page.
type question struct {
	title string
	steps []step
}

// A step is a command on the page, with the output that the page shows.
type step struct {
	lang  string // promql, console or jaeger
	input string
	// want is the output on the page: for promql one series a line, otherwise lines of the output,
	// in which … stands for anything.
	want []string
}

var (
	questionTitle = regexp.MustCompile(`(?m)^## \d+\. (.+)$`)
	fence         = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")
)

// readRunbook reads the questions of the page.
func readRunbook(t *testing.T) (text string, questions []question) {
	t.Helper()
	page, err := os.ReadFile("../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	text = string(page)
	titles := questionTitle.FindAllStringSubmatchIndex(text, -1)
	for i, at := range titles {
		end := len(text)
		if i+1 < len(titles) {
			end = titles[i+1][0]
		}
		q := question{title: text[at[2]:at[3]]}
		for _, block := range fence.FindAllStringSubmatch(text[at[1]:end], -1) {
			lang, body := block[1], strings.TrimSpace(block[2])
			last := len(q.steps) - 1
			switch lang {
			case "promql", "console", "jaeger":
				q.steps = append(q.steps, step{lang: lang, input: body})
			case "answer":
				if last < 0 || q.steps[last].want != nil {
					t.Fatalf("%s: an answer to nothing: %s", q.title, body)
				}
				q.steps[last].want = strings.Split(body, "\n")
			default:
				t.Fatalf("%s: nothing exercises a block of %s", q.title, lang)
			}
		}
		questions = append(questions, q)
	}
	return text, questions
}

// Twenty questions, each with a query, another place to look, and what they answer. The test
// exercises each of them. Every alert has its place on the page.
func TestRunbookPage(t *testing.T) {
	text, questions := readRunbook(t)
	situations := situations()
	if len(questions) != 21 || len(situations) != 21 {
		t.Errorf("%d questions, %d situations, want 21", len(questions), len(situations))
	}
	for i, q := range questions {
		if !strings.Contains(text, fmt.Sprintf("\n## %d. %s\n", i+1, q.title)) {
			t.Errorf("%s is not number %d", q.title, i+1)
		}
		if link := fmt.Sprintf("(#%d-%s)", i+1, anchor(q.title)); !strings.Contains(text, link) {
			t.Errorf("%s: the index has no link %s", q.title, link)
		}
		if _, ok := situations[q.title]; !ok {
			t.Errorf("%s is not exercised", q.title)
		}
		kinds := map[string]int{}
		for _, s := range q.steps {
			kinds[s.lang]++
			if len(s.want) == 0 {
				t.Errorf("%s: the page does not say what this answers: %s", q.title, s.input)
			}
		}
		if len(q.steps) == 0 || q.steps[0].lang != "promql" || kinds["console"] == 0 {
			t.Errorf("%s: want a query first and something to type, have %v", q.title, kinds)
		}
	}
	rules, err := os.ReadFile("../dashboards/rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, alert := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(string(rules), -1) {
		if !strings.Contains(text, "`"+alert[1]+"`") {
			t.Errorf("the page does not name the alert %s", alert[1])
		}
	}
}

// anchor returns the anchor of a title in rendered Markdown.
func anchor(title string) string {
	kept := regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(title), "")
	return strings.ReplaceAll(kept, " ", "-")
}

var (
	metricName = regexp.MustCompile(`\b(?:vitrine|mcp)_[a-z_]+`)
	selector   = regexp.MustCompile(`\b((?:vitrine|mcp)_[a-z_]+)\{([^}]*)\}`)
	matcher    = regexp.MustCompile(`([a-z_]+)(?:=~|!~|!=|=)"([^"]*)"`)
	grouping   = regexp.MustCompile(`\bby \(([^)]*)\)`)
	histogram  = regexp.MustCompile(`_(?:bucket|count|sum)$`)
)

// Each metric, label and label value of a query is in the catalogue, and each query keeps the
// instance and selects what is wrong.
func TestRunbookNames(t *testing.T) {
	metrics := map[string]telemetry.Metric{}
	for _, m := range telemetry.Catalogue() {
		metrics[m.Name] = m
	}
	find := func(name string) (telemetry.Metric, bool) {
		m, ok := metrics[name]
		if base := histogram.ReplaceAllString(name, ""); !ok {
			m, ok = metrics[base]
			ok = ok && m.Kind == telemetry.Histogram
		}
		return m, ok
	}
	label := func(m telemetry.Metric, name string) (l telemetry.Label, ok bool) {
		i := slices.IndexFunc(m.Labels, func(l telemetry.Label) bool { return l.Name == name })
		if i >= 0 {
			return m.Labels[i], true
		}
		return l, name == "instance" || name == "le" && m.Kind == telemetry.Histogram
	}
	_, questions := readRunbook(t)
	for _, q := range questions {
		for _, s := range q.steps {
			if s.lang != "promql" {
				continue
			}
			if !strings.Contains(s.input, "> ") {
				t.Errorf("%s: %s answers for what is well, too", q.title, s.input)
			}
			grouped := grouping.FindAllStringSubmatchIndex(s.input, -1)
			if len(grouped) == 0 || metricName.MatchString(withoutLabels(s.input[:grouped[0][0]])) {
				t.Errorf("%s: %s does not say what it keeps of a metric", q.title, s.input)
			}
			for i, by := range grouped {
				end := len(s.input)
				if i+1 < len(grouped) {
					end = grouped[i+1][0]
				}
				names := metricName.FindAllString(withoutLabels(s.input[by[1]:end]), -1)
				if len(names) != 1 {
					t.Errorf("%s: %s groups the metrics %q, want one", q.title, s.input[by[0]:by[1]], names)
					continue
				}
				m, ok := find(names[0])
				if !ok {
					t.Errorf("%s: there is no metric %s", q.title, names[0])
					continue
				}
				list := strings.Split(s.input[by[2]:by[3]], ", ")
				if !slices.Contains(list, "instance") {
					t.Errorf("%s: %s does not keep the instance", q.title, s.input[by[0]:by[1]])
				}
				for _, l := range list {
					if _, ok := label(m, l); !ok {
						t.Errorf("%s: %s has no label %s", q.title, names[0], l)
					}
				}
			}
			for _, sel := range selector.FindAllStringSubmatch(s.input, -1) {
				m, _ := find(sel[1])
				matchers := matcher.FindAllStringSubmatch(sel[2], -1)
				if len(matchers) == 0 {
					t.Errorf("%s: %s selects nothing", q.title, sel[0])
				}
				for _, match := range matchers {
					l, ok := label(m, match[1])
					if !ok {
						t.Errorf("%s: %s has no label %s", q.title, sel[1], match[1])
					}
					for value := range strings.SplitSeq(match[2], "|") {
						if l.Values != nil && !slices.Contains(l.Values, value) {
							t.Errorf("%s: %s{%s} is never %q", q.title, sel[1], match[1], value)
						}
					}
				}
			}
		}
	}
}

// withoutLabels takes out of a part of a query the selectors, and the labels that two
// sides are matched on, so that no label is taken for a metric.
func withoutLabels(query string) string {
	return regexp.MustCompile(`\{[^}]*\}|\bon \([^)]*\)`).ReplaceAllString(query, "")
}
