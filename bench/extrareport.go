package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vitrine-mcp/vitrine/bench/servers"
)

// Release returns the table of the sizes and times of a release.
func (r report) Release() string {
	var b strings.Builder
	rel := r.release
	if rel.programs == nil {
		return ""
	}
	cells := func(title string, cell func(programResult) string) []string {
		all := []string{title}
		for _, one := range rel.programs {
			all = append(all, cell(one))
		}
		return all
	}
	row := head(&b, cells("", func(one programResult) string { return one.program.title })...)
	add := func(title string, cell func(programResult) string) { row(cells(title, cell)...) }
	add("binary", func(one programResult) string { return megabytes(float64(one.size)) })
	add("from exec to the first answer", func(one programResult) string {
		return format("%.1f", one.start(func(l launch) time.Duration { return l.took })) + " ms"
	})
	add("CPU time of that", func(one programResult) string {
		return format("%.1f", one.start(func(l launch) time.Duration { return l.cpu })) + " ms"
	})
	for moment, title := range [moments]string{
		"resident after the first answer",
		fmt.Sprintf("%s later", rel.pause),
		"after a scrape of the metrics",
		fmt.Sprintf("after %d scrapes", manyScrapes),
	} {
		add(title, func(one programResult) string {
			if moment >= afterScrape && !one.program.scraped {
				return ""
			}
			size := func(of func(memory) float64) spread {
				values := make([]float64, len(one.idle[moment]))
				for i, m := range one.idle[moment] {
					values[i] = of(m) / 1e6
				}
				return spreadOfValues(values)
			}
			return fmt.Sprintf("%s MB, %.1f of them its file's", format("%.1f", size(func(m memory) float64 { return m.resident })),
				size(func(m memory) float64 { return m.file }).median)
		})
	}
	return b.String()
}

// start returns the spread of a time of the launches, in milliseconds.
func (one programResult) start(of func(launch) time.Duration) spread {
	values := make([]float64, len(one.launches))
	for i, l := range one.launches {
		values[i] = float64(of(l)) / float64(time.Millisecond)
	}
	return spreadOfValues(values)
}

// most returns the largest memory of an idle process before a moment, without the pages of its file, in bytes.
func (one programResult) most(before int) (most float64) {
	for _, all := range one.idle[:before] {
		for _, m := range all {
			most = max(most, m.resident-m.file)
		}
	}
	return most
}

// released returns a figure of the release of Vitrine, if there is one.
func released(figure func(programResult) float64) func(report) (float64, bool) {
	return func(r report) (float64, bool) {
		if r.release.programs == nil {
			return 0, false
		}
		return figure(r.release.programs[0]), true
	}
}

// Protected returns the table of the costs of protection.
func (r report) Protected() string {
	if r.protected.samples == nil {
		return ""
	}
	var b strings.Builder
	row := head(&b, "server", "CPU µs", "× plain", "allocations", "KB allocated")
	var plain []sample
	for i, k := range servers.Protected() {
		samples := r.protected.samples[i]
		if !servers.IsProtected(k) {
			plain = samples
		}
		row(
			k.Title,
			format("%.1f", spreadOf(samples, func(s sample) float64 { return micros(s.cpu) })),
			format("%.2f", ratios(samples, plain, cpuTimeOf)),
			fmt.Sprintf("%.1f", spreadOf(samples, func(s sample) float64 { return s.mallocs }).median),
			fmt.Sprintf("%.1f", spreadOf(samples, func(s sample) float64 { return s.bytes }).median/1000),
		)
	}
	return b.String()
}

// fraction returns the CPU time of a server in a scenario, divided by a number of parts.
func (r report) fraction(server, scenario string, parts float64) string {
	samples := r.of(server, scenario)
	if samples == nil {
		return unknown
	}
	return fmt.Sprintf("%.1f µs", spreadOf(samples, func(s sample) float64 { return micros(s.cpu) }).median/parts)
}

// Collector returns the table of the gains by fewer runs of the garbage collector.
func (r report) Collector() string {
	if r.collector.samples == nil {
		return ""
	}
	var b strings.Builder
	row := head(&b, "server", "CPU µs", "with GOGC=1000", "×")
	cpu := func(s []sample) string {
		return format("%.1f", spreadOf(s, func(s sample) float64 { return micros(s.cpu) }))
	}
	kinds := servers.Relaxed()
	for i := 0; i < len(kinds); i += 2 {
		usual, relaxed := r.collector.samples[i], r.collector.samples[i+1]
		row(kinds[i].Title, cpu(usual), cpu(relaxed), format("%.2f", ratios(relaxed, usual, cpuTimeOf)))
	}
	return b.String()
}

// validation returns the time of a full validation.
func (r report) validation() string {
	if r.checking == 0 {
		return unknown
	}
	return fmt.Sprintf("%.1f µs", micros(r.checking))
}

// part returns the CPU time of some parts of a server together, in one request of the headline.
func (r report) part(server string, titles ...string) string {
	if cpu, ok := r.partCPU(server, titles...); ok {
		return fmt.Sprintf("%.1f µs", cpu)
	}
	return unknown
}

// share returns the share of that in the CPU time of one request.
func (r report) share(server string, titles ...string) string {
	some, ok := r.partCPU(server, titles...)
	all, _ := r.partCPU(server, partTitles()...)
	if !ok {
		return unknown
	}
	return fmt.Sprintf("%.0f %%", 100*some/all)
}

func (r report) partCPU(server string, titles ...string) (micro float64, ok bool) {
	for _, res := range r.results {
		if i := r.index(server); i >= 0 && res.parts != nil && res.parts[i].cpu != nil {
			for _, title := range titles {
				micro += res.parts[i].cpu[title]
			}
			return micro * spreadOf(res.samples[i], func(s sample) float64 { return micros(s.cpu) }).median, true
		}
	}
	return 0, false
}

// ownParts returns the parts of Vitrine itself with their CPU times, the largest first.
func (r report) ownParts() string {
	type own struct {
		title string
		cpu   float64
	}
	var all []own
	for _, title := range []string{"transport", "internal/session", "internal/wire", "server, middleware", "telemetry"} {
		cpu, ok := r.partCPU("vitrine", title)
		if !ok {
			return unknown
		}
		all = append(all, own{title, cpu})
	}
	slices.SortStableFunc(all, func(a, b own) int { return int(b.cpu*1000) - int(a.cpu*1000) })
	texts := make([]string, len(all))
	for i, o := range all {
		texts[i] = fmt.Sprintf("%s %.1f µs", o.title, o.cpu)
	}
	return strings.Join(texts, "; ")
}
