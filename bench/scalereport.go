package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vitrine-mcp/vitrine/bench/servers"
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
	if s.replicas != nil {
		b.WriteString("\n### Replicas behind nginx\n\n")
		s.behindNginx(&b)
	}
	if s.tools != nil {
		b.WriteString("\n### Many tools over HTTP, modern\n\n")
		s.tooled(&b)
	}
	if s.texts != nil {
		b.WriteString("\n### Long texts over HTTP, modern\n\n")
		s.textual(&b)
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
	took := func(n notice) time.Duration { return n.took }
	for i, got := range s.streams {
		for j, rounds := range got.notices {
			n, spent := rounds[0].listeners, noticesIn(rounds, cpuOfNotice)
			row(s.kinds[i].Title, thousands(n), format("%.1f", noticesIn(rounds, took))+" ms", format("%.1f", spent)+" ms",
				fmt.Sprintf("%.2f", spent.median/noticesIn(s.streams[0].notices[j], cpuOfNotice).median), fmt.Sprintf("%.1f µs", spent.median*1000/float64(n)))
		}
	}
}

func cpuOfNotice(n notice) time.Duration { return n.cpu }

// noticesIn returns a time of the rounds in milliseconds.
func noticesIn(rounds []notice, value func(notice) time.Duration) spread {
	values := make([]float64, len(rounds))
	for i, n := range rounds {
		values[i] = value(n).Seconds() * 1000
	}
	return spreadOfValues(values)
}

// told returns the CPU time of one change at a server with the largest number of streams, as a multiple of
// that at net/http.
func (s scaleResult) told(server string) (float64, bool) {
	i := slices.IndexFunc(s.kinds, func(k servers.Kind) bool { return k.Name == server })
	if i < 0 || i >= len(s.streams) {
		return 0, false
	}
	cpu := func(r streamsResult) float64 { return noticesIn(r.notices[len(r.notices)-1], cpuOfNotice).median }
	return cpu(s.streams[i]) / cpu(s.streams[0]), true
}

func (s scaleResult) sessions(b *strings.Builder) {
	row := head(b, "sessions, each called in turn", "open streams", "CPU µs of a call", fmt.Sprintf("× %d sessions", callersOfSessions), "allocations", "KB allocated", "answers/s", "p50", "p99")
	for i, n := range s.beside {
		row(slices.Concat([]string{thousands(n.sessions), thousands(n.streams)}, costs(s.cost[i], s.cost[0]), speeds(s.cost[i]))...)
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
