package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vitrine-mcp/vitrine/bench/servers"
)

// Promises returns the table of the costs of promises.
func (r report) Promises() string { return r.promises.promisesTable() }

// PromisesLegacy returns the table of the legacy era.
func (r report) PromisesLegacy() string { return r.promisesLegacy.promisesTable() }

func (res result) promisesTable() string {
	if res.samples == nil {
		return ""
	}
	var b strings.Builder
	row := head(&b, "server", "CPU µs", "× floor", "× all by hand", "× bare", "allocations", "KB allocated")
	for i, k := range servers.Promises()[:len(res.samples)] {
		samples := res.samples[i]
		row(
			k.Title,
			format("%.1f", spreadOf(samples, func(s sample) float64 { return micros(s.cpu) })),
			format("%.2f", ratios(samples, res.promising(servers.Floor), cpuTimeOf)),
			format("%.2f", ratios(samples, res.promising(servers.Promised), cpuTimeOf)),
			format("%.2f", ratios(samples, res.promising(servers.Bare), cpuTimeOf)),
			fmt.Sprintf("%.0f", spreadOf(samples, func(s sample) float64 { return s.mallocs }).median),
			fmt.Sprintf("%.1f", spreadOf(samples, func(s sample) float64 { return s.bytes }).median/1000),
		)
	}
	return b.String()
}

// promising returns the samples of one of the servers with promises; nil if it was not measured.
func (res result) promising(server string) []sample {
	i := slices.IndexFunc(servers.Promises(), func(k servers.Kind) bool { return k.Name == server })
	if i < 0 || i >= len(res.samples) {
		return nil
	}
	return res.samples[i]
}

// promised returns the CPU time of one of these servers as a multiple of that of another.
func (r report) promised(server, other string) string { return r.promises.times(server, other) }

// promisedLegacy is promised for the legacy era.
func (r report) promisedLegacy(server, other string) string {
	return r.promisesLegacy.times(server, other)
}

// times returns the CPU time of one of the servers with promises as a multiple of that of another.
func (res result) times(server, other string) string {
	samples, base := res.promising(server), res.promising(other)
	if samples == nil || base == nil {
		return unknown
	}
	return format("%.2f", ratios(samples, base, cpuTimeOf))
}

// promisedGoal returns that figure of an era for a goal.
func promisedGoal(of func(report) result, server, other string) func(report) (float64, bool) {
	return func(r report) (float64, bool) {
		samples, base := of(r).promising(server), of(r).promising(other)
		if samples == nil || base == nil {
			return 0, false
		}
		return ratios(samples, base, cpuTimeOf).median, true
	}
}
