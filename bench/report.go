package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vitrine-mcp/vitrine/bench/servers"
)

// A report has the outcome of a run and its conditions.
type report struct {
	plan    plan
	machine machine
	outcome
}

// index returns the index of a kind in the plan, or -1.
func (r report) index(name string) int {
	return slices.IndexFunc(r.plan.kinds, func(k servers.Kind) bool { return k.Name == name })
}

// markdown returns the whole report: conditions, servers and tables.
func (r report) markdown() string {
	text := r.Conditions() + "\n" + r.Servers() + r.Tables()
	for _, part := range []struct{ heading, text string }{
		{"At scale", r.Scale()}, {"Size and start", r.Release()}, {"What promises cost", r.Promises()}, {"What promises cost, legacy", r.PromisesLegacy()},
		{"What protection costs", r.Protected()}, {"Everything on", r.Everything()}, {"A session for each call", r.Sessions()},
		{"Fewer runs of the garbage collector", r.Collector()},
	} {
		if part.text != "" {
			text += "\n## " + part.heading + "\n\n" + strings.TrimPrefix(part.text, "\n")
		}
	}
	if r.checking != 0 {
		text += "\nA full validation of arguments with five fields takes " + r.validation() + ".\n"
	}
	return text
}

// Conditions returns where and how the figures were measured.
func (r report) Conditions() string {
	return fmt.Sprintf("Measured on %s: %s.\n"+
		"%d rounds (%d with 16 callers and 300 bytes, by which most of what is aimed at is measured), in each of which every\n"+
		"server had a turn of %s; medians, and in parentheses the\n"+
		"least and the greatest of the rounds. CPU time is that of the server process, user and kernel, as the\n"+
		"operating system counts it; × floor and × bare are taken within one round.\n",
		r.machine.when.Format("2 January 2006"), r.machine, r.plan.rounds, goalRounds*r.plan.rounds, r.plan.slice)
}

// Servers lists the servers and their versions.
func (r report) Servers() string {
	var b strings.Builder
	for _, k := range r.plan.kinds {
		version := r.machine.modules[k.Module]
		if k.Module == "" {
			version = "standard library"
		}
		fmt.Fprintf(&b, "- %s: %s", k.Title, version)
		if k.Loses {
			b.WriteString("; of ten reports of progress it may lose some")
		}
		if k.Mended {
			b.WriteString("; without the new buffer that it makes for each message that it decodes")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// Tables returns the tables of all scenarios but the scale, under a heading for each group.
func (r report) Tables() string {
	var b strings.Builder
	group := ""
	for _, res := range r.results {
		if res.scenario.group != group {
			group = res.scenario.group
			fmt.Fprintf(&b, "\n## %s\n", group)
		}
		fmt.Fprintf(&b, "\n### %s\n\n", res.scenario.title())
		r.table(&b, res)
		if res.scenario.half {
			r.halves(&b, res)
		}
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
	row := head(b, "server", "CPU µs", "× floor", "× bare", "allocations", "KB allocated", "answer", "answers/s", "p50", "p99")
	for i, k := range r.plan.kinds {
		samples := res.samples[i]
		median := func(value func(sample) float64) float64 { return spreadOf(samples, value).median }
		timesBare := ""
		if bare >= 0 {
			timesBare = fmt.Sprintf("%.2f", ratios(samples, res.samples[bare], cpuTimeOf).median)
		}
		row(
			k.Title,
			format("%.1f", spreadOf(samples, func(s sample) float64 { return micros(s.cpu) })),
			format("%.2f", ratios(samples, res.samples[floor], cpuTimeOf)),
			timesBare,
			fmt.Sprintf("%.0f", median(func(s sample) float64 { return s.mallocs })),
			fmt.Sprintf("%.1f", median(func(s sample) float64 { return s.bytes })/1000),
			fmt.Sprint(samples[len(samples)-1].answer),
			fmt.Sprintf("%.0f", median(sample.rate)),
			duration(median(func(s sample) float64 { return float64(s.p50) })),
			duration(median(func(s sample) float64 { return float64(s.p99) })),
		)
	}
}

// head begins a table, and returns a function that adds a row to it.
func head(b *strings.Builder, columns ...string) (row func(cells ...string)) {
	fmt.Fprintf(b, "| %s |\n|---|%s\n", strings.Join(columns, " | "), strings.Repeat("---:|", len(columns)-1))
	return func(cells ...string) { fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | ")) }
}

// costs returns the cells of the cost of one request: CPU time, × base, allocations, and KB allocated.
func costs(samples, base []sample) []string {
	median := func(value func(sample) float64) float64 { return spreadOf(samples, value).median }
	return []string{
		format("%.1f", spreadOf(samples, func(s sample) float64 { return micros(s.cpu) })),
		format("%.2f", ratios(samples, base, cpuTimeOf)),
		fmt.Sprintf("%.0f", median(func(s sample) float64 { return s.mallocs })),
		fmt.Sprintf("%.1f", median(func(s sample) float64 { return s.bytes })/1000),
	}
}

// speeds returns the cells of the answers per second and their durations.
func speeds(samples []sample) []string {
	median := func(value func(sample) float64) float64 { return spreadOf(samples, value).median }
	return []string{
		fmt.Sprintf("%.0f", median(sample.rate)),
		duration(median(func(s sample) float64 { return float64(s.p50) })),
		duration(median(func(s sample) float64 { return float64(s.p99) })),
	}
}

// halves writes the table of the latencies at half of the load.
func (r report) halves(b *strings.Builder, res result) {
	floor := res.samples[r.index(servers.Floor)]
	b.WriteString("\n")
	row := head(b, "at half of that load", "due/s", "p50", "p99", "p99 × floor", "client late, p99")
	for i, k := range r.plan.kinds {
		samples := res.samples[i]
		median := func(value func(half) float64) float64 {
			return spreadOf(samples, func(s sample) float64 { return value(s.half) }).median
		}
		row(
			k.Title,
			fmt.Sprintf("%.0f", median(func(h half) float64 { return h.rate })),
			duration(median(func(h half) float64 { return float64(h.p50) })),
			duration(median(func(h half) float64 { return float64(h.p99) })),
			format("%.2f", ratios(samples, floor, p99AtHalf)),
			duration(median(func(h half) float64 { return float64(h.late) })),
		)
	}
}

func p99AtHalf(s sample) time.Duration { return s.half.p99 }

func format(verb string, s spread) string {
	return fmt.Sprintf(verb+" ("+verb+"–"+verb+")", s.median, s.low, s.high)
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// duration prints nanoseconds with about three digits.
func duration(ns float64) string {
	if us := ns / 1e3; us < 1000 {
		return fmt.Sprintf("%.0f µs", us)
	}
	return fmt.Sprintf("%.2f ms", ns/1e6)
}
