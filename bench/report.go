package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vitrine-mcp/vitrine/bench/servers"
)

// A report is what a run has given, and on what.
type report struct {
	plan    plan
	machine machine
	results []result
}

// index returns where in the plan a kind is, -1 if it is not.
func (r report) index(name string) int {
	return slices.IndexFunc(r.plan.kinds, func(k servers.Kind) bool { return k.Name == name })
}

// markdown returns the report. picture is the address of its picture, if it has one.
func (r report) markdown(picture string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Measured on %s: %s.\n", r.machine.when.Format("2 January 2006"), r.machine)
	fmt.Fprintf(&b, "%d rounds, in each of which every server had a turn of %s; medians, and in parentheses the\n"+
		"least and the greatest of the rounds. CPU time is that of the server process, user and kernel, as the\n"+
		"operating system counts it; × floor and × bare are taken within one round.\n\n", r.plan.rounds, r.plan.slice)
	for _, k := range r.plan.kinds {
		version := r.machine.modules[k.Module]
		if k.Module == "" {
			version = "standard library"
		}
		fmt.Fprintf(&b, "- %s: %s", k.Title, version)
		if k.Loses {
			b.WriteString("; of ten reports of progress it may lose some")
		}
		b.WriteString("\n")
	}
	if picture != "" {
		fmt.Fprintf(&b, "\n![CPU time of one request, by server](%s)\n", picture)
	}
	group := ""
	for _, res := range r.results {
		if res.scenario.group != group {
			group = res.scenario.group
			fmt.Fprintf(&b, "\n## %s\n", group)
		}
		fmt.Fprintf(&b, "\n### %s\n\n", res.scenario.title())
		r.table(&b, res)
	}
	return b.String()
}

func (s scenario) title() string {
	who := fmt.Sprintf("%d callers", s.callers)
	switch {
	case s.stdio:
		who = fmt.Sprintf("%d in flight", s.callers)
	case s.callers == 1:
		who = "1 caller"
	}
	switch s.kind {
	case list:
		return fmt.Sprintf("%d tools, %s", s.tools, who)
	case progress:
		return who
	}
	return fmt.Sprintf("%s message (%d bytes), %s", s.size.name, s.size.bytes, who)
}

func (r report) table(b *strings.Builder, res result) {
	floor, bare := r.index(servers.Floor), r.index(servers.Bare)
	head := []string{"server", "CPU µs", "× floor", "× bare", "allocations", "KB allocated", "answer", "answers/s", "p50", "p99"}
	fmt.Fprintf(b, "| %s |\n|---|%s\n", strings.Join(head, " | "), strings.Repeat("---:|", len(head)-1))
	for i, k := range r.plan.kinds {
		samples := res.samples[i]
		median := func(value func(sample) float64) float64 { return spreadOf(samples, value).median }
		timesBare := ""
		if bare >= 0 {
			timesBare = fmt.Sprintf("%.2f", ratios(samples, res.samples[bare]).median)
		}
		cells := []string{
			k.Title,
			format("%.1f", spreadOf(samples, func(s sample) float64 { return micros(s.cpu) })),
			format("%.2f", ratios(samples, res.samples[floor])),
			timesBare,
			fmt.Sprintf("%.0f", median(func(s sample) float64 { return s.mallocs })),
			fmt.Sprintf("%.1f", median(func(s sample) float64 { return s.bytes })/1000),
			fmt.Sprint(samples[len(samples)-1].answer),
			fmt.Sprintf("%.0f", median(sample.rate)),
			duration(median(func(s sample) float64 { return float64(s.p50) })),
			duration(median(func(s sample) float64 { return float64(s.p99) })),
		}
		fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
	}
}

func format(verb string, s spread) string {
	return fmt.Sprintf(verb+" ("+verb+"–"+verb+")", s.median, s.low, s.high)
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// duration prints nanoseconds with three digits or so.
func duration(ns float64) string {
	if us := ns / 1e3; us < 1000 {
		return fmt.Sprintf("%.0f µs", us)
	}
	return fmt.Sprintf("%.2f ms", ns/1e6)
}

// The marks between which the command writes its part of a file, so that the rest of
// the page can be written by hand.
const (
	beginMark = "<!-- bench: written by the command in bench/ -->"
	endMark   = "<!-- bench: end -->"
)

// write writes the report to a file, and the picture beside it.
func (r report) write(path string) error {
	picture := strings.TrimSuffix(path, filepath.Ext(path)) + ".svg"
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	page, err := splice(old, r.markdown(filepath.Base(picture)))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := os.WriteFile(picture, r.svg(), 0o644); err != nil {
		return err
	}
	return os.WriteFile(path, page, 0o644)
}

// splice returns a page with a report between its marks. An empty page becomes one that
// has nothing else.
func splice(page []byte, report string) ([]byte, error) {
	if len(page) == 0 {
		page = []byte("# Performance\n\n" + beginMark + "\n" + endMark + "\n")
	}
	before, rest, ok := bytes.Cut(page, []byte(beginMark))
	_, after, ok2 := bytes.Cut(rest, []byte(endMark))
	if !ok || !ok2 {
		return nil, fmt.Errorf("the page has no place for the report: %s and %s", beginMark, endMark)
	}
	return slices.Concat(before, []byte(beginMark+"\n\n"+report+"\n"+endMark), after), nil
}
