package main

import (
	"fmt"
	"strings"
	"time"
)

// Scale returns the tables of the scale.
func (r report) Scale() string {
	var b strings.Builder
	s := r.scaled
	if s.streams != nil {
		b.WriteString("\n### Open streams over HTTP, modern\n\n")
		s.growths(&b, "streams", s.openStreams())
		b.WriteString("\nOne change of a list, until all have been told of it:\n\n")
		s.fanOut(&b)
	}
	if s.calls != nil {
		b.WriteString("\n### Calls in flight over HTTP, modern\n\n")
		s.growths(&b, "calls", s.calls)
	}
	if s.session != nil {
		b.WriteString("\n### Idle sessions over HTTP, legacy\n\n")
		row := head(&b, "sessions", "heap", "stacks", "heap + stacks", "resident", "goroutines", "all: heap + stacks")
		for _, g := range s.session {
			f := g.each
			row(thousands(g.n), kilobytes(f.Heap), kilobytes(f.Stacks), kilobytes(f.own()), kilobytes(f.resident),
				fmt.Sprintf("%.2f", f.Goroutines), megabytes(f.own()*float64(g.n)))
		}
	}
	if s.cost != nil {
		b.WriteString("\nA call while there are so many:\n\n")
		s.sessions(&b)
	}
	return b.String()
}

// growths writes a table of the memory of each stream or call at growing numbers, for each kind.
// The first kind is net/http alone.
func (s scaleResult) growths(b *strings.Builder, many string, all []growth) {
	row := head(b, "server", many, "each: heap", "stacks", "heap + stacks", "beyond net/http", "resident", "beyond net/http", "goroutines", "all: heap + stacks")
	for i, grown := range all {
		for j, g := range grown {
			f, base := g.each, all[0][j].each
			row(s.kinds[i].Title, thousands(g.n), kilobytes(f.Heap), kilobytes(f.Stacks), kilobytes(f.own()), kilobytes(f.own()-base.own()),
				kilobytes(f.resident), kilobytes(f.resident-base.resident), fmt.Sprintf("%.2f", f.Goroutines), megabytes(f.own()*float64(g.n)))
		}
	}
}

func (s scaleResult) fanOut(b *strings.Builder) {
	row := head(b, "server", "listeners", "until the last has read it", "CPU", "CPU × net/http", "CPU of one listener")
	of := func(all []notice, value func(notice) time.Duration) spread {
		values := make([]float64, len(all))
		for i, t := range all {
			values[i] = value(t).Seconds() * 1000
		}
		return spreadOfValues(values)
	}
	took := func(t notice) time.Duration { return t.took }
	cpu := func(t notice) time.Duration { return t.cpu }
	for i, got := range s.streams {
		for j, rounds := range got.notices {
			n, spent := rounds[0].listeners, of(rounds, cpu)
			row(s.kinds[i].Title, thousands(n), format("%.1f", of(rounds, took))+" ms", format("%.1f", spent)+" ms",
				fmt.Sprintf("%.2f", spent.median/of(s.streams[0].notices[j], cpu).median), fmt.Sprintf("%.1f µs", spent.median*1000/float64(n)))
		}
	}
}

func (s scaleResult) sessions(b *strings.Builder) {
	row := head(b, "sessions, each called in turn", "CPU µs of a call", "× one session", "allocations", "KB allocated", "p50", "p99")
	for i, n := range s.counts {
		median := func(value func(sample) float64) float64 { return spreadOf(s.cost[i], value).median }
		row(
			thousands(n),
			format("%.1f", spreadOf(s.cost[i], func(s sample) float64 { return micros(s.cpu) })),
			format("%.2f", ratios(s.cost[i], s.cost[0], cpuTimeOf)),
			fmt.Sprintf("%.0f", median(func(s sample) float64 { return s.mallocs })),
			fmt.Sprintf("%.1f", median(func(s sample) float64 { return s.bytes })/1000),
			duration(median(func(s sample) float64 { return float64(s.p50) })),
			duration(median(func(s sample) float64 { return float64(s.p99) })),
		)
	}
}

func kilobytes(bytes float64) string { return fmt.Sprintf("%.1f KB", bytes/1000) }
func megabytes(bytes float64) string { return fmt.Sprintf("%.1f MB", bytes/1e6) }

// thousands prints a number of at most six digits with a space before the last three.
func thousands(n int) string {
	if n < 10_000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d %03d", n/1000, n%1000)
}

// beyond returns the memory of each at the largest number, minus that of net/http alone.
func (s scaleResult) beyond(server string, all []growth) string {
	if kB, ok := s.excess(server, all); ok {
		return fmt.Sprintf("%.1f KB", kB)
	}
	return unknown
}
