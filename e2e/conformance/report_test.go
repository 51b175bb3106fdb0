package conformance

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// A cell is the outcome of one scenario in one run.
type cell struct {
	own            bool // a check of the scenario itself has passed, not only schemaCheck
	passed, failed int
	warned         int
	void           int // checks that have tested nothing, which is a fault
	idle           int // checks that have tested nothing, with an excuse
}

// schemaCheck is a check that the suite adds to every scenario. Alone it proves nothing.
const schemaCheck = "wire-schema-valid"

// The severity of a cell, which orders them.
const (
	left = iota
	pass
	empty
	warn
	fail
)

func (c *cell) severity() int {
	switch {
	case c.failed > 0:
		return fail
	case c.warned > 0:
		return warn
	case c.void > 0:
		return empty
	case !c.own: // see judge
		return left
	}
	return pass
}

// String is the word for the cell in the table.
func (c *cell) String() string {
	ratio := fmt.Sprintf(" %d/%d", c.passed, c.passed+c.failed+c.warned+c.void)
	switch c.severity() {
	case fail:
		return "FAIL" + ratio
	case warn:
		return "warn" + ratio
	case empty:
		return "void" + ratio
	case left:
		return "(left out)"
	}
	return fmt.Sprintf("pass %d", c.passed)
}

// A fault is a reason why the test fails. It is about the same scenario at one or more
// revisions, or about the runs themselves.
type fault struct {
	scenario  string
	revisions []string
	text      string
}

func (f *fault) String() string {
	if f.scenario == "" {
		return f.text
	}
	return fmt.Sprintf("%s (%s): %s", f.scenario, strings.Join(f.revisions, ", "), f.text)
}

// A report is the outcome of all runs.
type report struct {
	catalogue catalogue
	runs      []*run
	took      time.Duration

	cells  map[string]map[string]*cell // by scenario and revision: the worst of the runs
	totals map[*run]*totals
	faults []*fault
	used   map[int]bool // excuses that were needed
}

// newReport judges all runs.
func newReport(all catalogue, runs []*run, took time.Duration) *report {
	rep := judged(runs...)
	rep.catalogue, rep.took = all, took
	for _, s := range all.sections {
		if s.title != serverScenarios && !slices.ContainsFunc(foreigners, func(f foreign) bool { return f.section == s.title }) {
			rep.fault("", "", fmt.Sprintf("the suite has a section %q, which no rule is about", s.title))
		}
	}
	for i, u := range excused {
		if !rep.used[i] {
			rep.fault("", "", fmt.Sprintf("nothing needs the rule about the check %s of %s any more", u.check, u.scenario))
		}
	}
	return rep
}

// judged judges runs without checking that they are complete.
func judged(runs ...*run) *report {
	rep := &report{runs: runs, cells: map[string]map[string]*cell{}, totals: map[*run]*totals{}, used: map[int]bool{}}
	for _, r := range runs {
		rep.judgeRun(r)
	}
	return rep
}

// fault adds a fault, or a revision to one that is known.
func (rep *report) fault(scenario, revision, text string) {
	for _, f := range rep.faults {
		if f.scenario == scenario && f.text == text {
			if !slices.Contains(f.revisions, revision) {
				f.revisions = append(f.revisions, revision)
				slices.Sort(f.revisions)
			}
			return
		}
	}
	rep.faults = append(rep.faults, &fault{scenario, []string{revision}, text})
}

// judgeRun judges one run: its scenarios, its results, and the verdict of the suite.
func (rep *report) judgeRun(r *run) {
	n := &totals{}
	rep.totals[r] = n
	for _, scenario := range r.want {
		checks, there := r.got[scenario]
		if !there {
			checks = []check{{ID: "(no result)", Status: failure, ErrorMessage: r.excerpt(scenario)}}
		}
		c := rep.judge(scenario, r.revision, checks)
		n.add(c)
		if rep.cells[scenario] == nil {
			rep.cells[scenario] = map[string]*cell{}
		}
		if old := rep.cells[scenario][r.revision]; old == nil || c.severity() > old.severity() {
			rep.cells[scenario][r.revision] = c
		}
	}
	for _, scenario := range slices.Sorted(maps.Keys(r.got)) {
		if !slices.Contains(r.want, scenario) {
			rep.fault("", "", fmt.Sprintf("%s: %s was run, which the suite does not list there", r.name, scenario))
		}
	}
	switch {
	case r.err != nil:
		rep.fault("", "", fmt.Sprintf("%s: %v: %s", r.name, r.err, shorten(r.out)))
	case r.exit != 0 && n.failed == 0:
		rep.fault("", "", fmt.Sprintf("%s: exit status %d, but nothing has failed: %s", r.name, r.exit, shorten(r.out)))
	}
}

// judge counts the checks of a scenario, and adds a fault for each that has one.
func (rep *report) judge(scenario, revision string, checks []check) *cell {
	c := &cell{}
	fault := func(status, id, text string) {
		rep.fault(scenario, revision, fmt.Sprintf("%s %s: %s", status, id, shorten(text)))
	}
	for _, check := range checks {
		text := cmp.Or(check.ErrorMessage, check.note(), check.Description)
		switch check.Status {
		case success:
			c.passed++
			c.own = c.own || check.ID != schemaCheck
			continue
		case info, skipped:
			if check.Status == info && journal[check.ID] {
				continue
			}
			if i := excuse(scenario, check.ID, text); i >= 0 {
				rep.used[i] = true
				c.idle++
				continue
			}
			c.void++
		case warning:
			c.warned++
		default: // FAILURE, and unknown results
			c.failed++
		}
		fault(check.Status, check.ID, text)
	}
	if !c.own && c.idle+c.void+c.warned+c.failed == 0 {
		c.void++
		fault(skipped, "(no check)", "the scenario has tested nothing")
	}
	return c
}

// note finds the explanation among the details of a check.
func (c check) note() string {
	var details struct{ Message, Note string }
	_ = json.Unmarshal(c.Details, &details) // details that are no object explain nothing
	return cmp.Or(details.Message, details.Note)
}

// excerpt returns the output of a run about a scenario.
func (r *run) excerpt(scenario string) string {
	_, after, found := strings.Cut(r.out, "=== Running scenario: "+scenario+" ===")
	if !found {
		return "it was not run"
	}
	printed, _, _ := strings.Cut(after, "=== ")
	return cmp.Or(strings.TrimSpace(printed), "it has broken off")
}

// shorten makes one line of a text.
func shorten(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 400 {
		s = string(r[:400]) + "…"
	}
	return s
}

// word returns the entry of the table for a scenario at a revision.
func (rep *report) word(scenario, revision string) string {
	if c := rep.cells[scenario][revision]; c != nil {
		return c.String()
	}
	return "-"
}

// totals count scenarios by their severity, and checks.
type totals struct {
	scenarios                    [fail + 1]int
	checks, failed, warned, idle int
}

func (n *totals) add(c *cell) {
	n.scenarios[c.severity()]++
	n.checks += c.passed + c.failed + c.warned + c.void + c.idle
	n.failed += c.failed
	n.warned += c.warned
	n.idle += c.void + c.idle
}

// row renders totals as columns of the second table.
func (n *totals) row() []any {
	all := 0
	for _, s := range n.scenarios {
		all += s
	}
	return []any{all, n.scenarios[pass], n.scenarios[fail], n.scenarios[warn], n.scenarios[empty], n.scenarios[left], n.checks, n.failed, n.warned, n.idle}
}

// String renders the report: the table, the runs, the omissions, and the faults.
func (rep *report) String() string {
	var b strings.Builder
	names := rep.catalogue.section(serverScenarios)
	width := 0
	for _, name := range names {
		width = max(width, len(name))
	}
	for at, name := range append([]string{"scenario"}, names...) {
		line := fmt.Sprintf("%-*s", width, name)
		for _, revision := range revisions {
			word := revision
			if at > 0 {
				word = rep.word(name, revision)
			}
			line += fmt.Sprintf("  %-10s", word)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	b.WriteString("\npass n: all of n checks. FAIL, warn n/m: only n of m checks have passed. void: a check has tested nothing.\n" +
		"(left out): by a rule, see below. -: the scenario is not for this revision.\n\n")
	rep.writeRuns(&b, width)
	b.WriteString("\nleft out:\n")
	for _, f := range foreigners {
		fmt.Fprintf(&b, "  the %d %s: %s\n", len(rep.catalogue.section(f.section)), strings.ToLower(f.section[:1])+f.section[1:], f.why)
	}
	for _, u := range excused {
		fmt.Fprintf(&b, "  %s of %s: %s\n", u.check, u.scenario, u.why)
	}
	if len(rep.faults) > 0 {
		b.WriteString("\nfaults:\n")
	}
	for _, f := range slices.SortedStableFunc(slices.Values(rep.faults), func(a, b *fault) int { return cmp.Compare(a.scenario, b.scenario) }) {
		fmt.Fprintf(&b, "  %s\n", f)
	}
	return b.String()
}

// writeRuns renders the table of runs.
func (rep *report) writeRuns(b *strings.Builder, width int) {
	const columns = "  %9v %5v %5v %5v %5v %9v  %6v %6v %8v %6v"
	fmt.Fprintf(b, "%-*s"+columns+"  exit  time\n", width, "run",
		"scenarios", "pass", "FAIL", "warn", "void", "left out", "checks", "failed", "warnings", "untested")
	sum := &totals{}
	for _, r := range rep.runs {
		n := rep.totals[r]
		fmt.Fprintf(b, "%-*s"+columns+"  %6d  %.1f s\n", append(append([]any{width, r.name}, n.row()...), r.exit, r.took.Seconds())...)
		for i, s := range n.scenarios {
			sum.scenarios[i] += s
		}
		sum.checks += n.checks
		sum.failed += n.failed
		sum.warned += n.warned
		sum.idle += n.idle
	}
	fmt.Fprintf(b, "%-*s"+columns+"          %.1f s\n", append(append([]any{width, "together"}, sum.row()...), rep.took.Seconds())...)
}
