package main

import (
	"fmt"
	"strings"
	"time"
)

// Scale are the tables of the scale.
func (r report) Scale() string {
	var b strings.Builder
	s := r.scaled
	if s.streams != nil {
		fmt.Fprintf(&b, "\n### %s open streams over HTTP, modern\n\n", thousands(s.scale.streams))
		each := make([]footprint, len(s.streams))
		for i, got := range s.streams {
			each[i] = got.each
		}
		s.footprints(&b, each)
		fmt.Fprintf(&b, "\nOne change of a list, %s listeners:\n\n", thousands(s.scale.streams))
		s.fanOut(&b)
	}
	if s.calls != nil {
		fmt.Fprintf(&b, "\n### %s calls in flight over HTTP, modern\n\n", thousands(s.scale.calls))
		s.footprints(&b, s.calls)
	}
	if s.cost != nil {
		fmt.Fprintf(&b, "\n### %s idle sessions over HTTP, legacy\n\n", thousands(s.scale.sessions))
		fmt.Fprintf(&b, "A session keeps %s of heap and stacks (%s resident) and %.2f goroutines.\n\n",
			kilobytes(s.session.Heap+s.session.Stacks), kilobytes(s.session.resident), s.session.Goroutines)
		s.sessions(&b)
	}
	return b.String()
}

// footprints is a table of what one of many costs each of the kinds, the first of which
// is what net/http itself needs.
func (s scaleResult) footprints(b *strings.Builder, each []footprint) {
	row := head(b, "server", "heap", "stacks", "heap + stacks", "beyond net/http", "resident", "beyond net/http", "goroutines")
	own := func(f footprint) float64 { return f.Heap + f.Stacks }
	for i, f := range each {
		row(s.kinds[i].Title, kilobytes(f.Heap), kilobytes(f.Stacks), kilobytes(own(f)), kilobytes(own(f)-own(each[0])),
			kilobytes(f.resident), kilobytes(f.resident-each[0].resident), fmt.Sprintf("%.2f", f.Goroutines))
	}
}

func (s scaleResult) fanOut(b *strings.Builder) {
	row := head(b, "server", "until the last has read it", "CPU", "CPU × net/http", "CPU of one listener")
	of := func(all []told, value func(told) time.Duration) spread {
		values := make([]float64, len(all))
		for i, t := range all {
			values[i] = value(t).Seconds() * 1000
		}
		return spreadOfValues(values)
	}
	took := func(t told) time.Duration { return t.took }
	cpu := func(t told) time.Duration { return t.cpu }
	floor := of(s.streams[0].told, cpu)
	for i, got := range s.streams {
		spent := of(got.told, cpu)
		row(s.kinds[i].Title, format("%.0f", of(got.told, took))+" ms", format("%.0f", spent)+" ms",
			fmt.Sprintf("%.2f", spent.median/floor.median), fmt.Sprintf("%.1f µs", spent.median*1000/float64(s.scale.streams)))
	}
}

func (s scaleResult) sessions(b *strings.Builder) {
	row := head(b, "open sessions, each called in turn", "CPU µs of a call", "× one session", "allocations", "KB allocated", "p50", "p99")
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

// thousands prints a number of at most six digits with a space before the last three.
func thousands(n int) string {
	if n < 10_000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d %03d", n/1000, n%1000)
}

// beyond is what one of many costs a server beyond what net/http itself needs.
func (s scaleResult) beyond(server string, each []footprint) string {
	for i, f := range each {
		if s.kinds[i].Name == server {
			return kilobytes(f.Heap + f.Stacks - each[0].Heap - each[0].Stacks)
		}
	}
	return unknown
}
