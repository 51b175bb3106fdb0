package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vitrine-mcp/vitrine/bench/servers"
)

// Sessions returns the tables of the shops whose users open a session for each call.
func (r report) Sessions() string {
	var b strings.Builder
	for _, table := range []struct{ name, title string }{
		{extraSessions, "The client ends each session (DELETE)"},
		{extraSessionsForever, "No client ends a session"},
	} {
		res, ok := r.sessions[table.name]
		if !ok {
			continue
		}
		fmt.Fprintf(&b, "\n### %s\n\n", table.title)
		row := head(&b, "server", "CPU µs", "× by hand", "× all by hand", "× mcp-go", "allocations", "KB allocated", "requests/s", "p50", "p99")
		for i, k := range servers.Shops() {
			samples := res.samples[i]
			median := func(value func(sample) float64) float64 { return spreadOf(samples, value).median }
			row(
				k.Title,
				format("%.0f", spreadOf(samples, func(s sample) float64 { return micros(s.cpu) })),
				format("%.2f", ratios(samples, shopSamples(res, servers.ShopByHand), cpuTimeOf)),
				format("%.2f", ratios(samples, shopSamples(res, servers.ShopComplete), cpuTimeOf)),
				format("%.2f", ratios(samples, shopSamples(res, servers.ShopMCPGo), cpuTimeOf)),
				fmt.Sprintf("%.0f", median(func(s sample) float64 { return s.mallocs })),
				fmt.Sprintf("%.1f", median(func(s sample) float64 { return s.bytes })/1000),
				fmt.Sprintf("%.0f", median(sample.rate)),
				duration(median(func(s sample) float64 { return float64(s.p50) })),
				duration(median(func(s sample) float64 { return float64(s.p99) })),
			)
		}
	}
	return b.String()
}

// shopSamples returns the samples of one of the shops.
func shopSamples(r result, server string) []sample {
	return r.samples[slices.IndexFunc(servers.Shops(), func(k servers.Kind) bool { return k.Name == server })]
}

// shopGoal returns the CPU time of the shop of Vitrine as package service runs it, as a multiple of that of another.
func shopGoal(name, other string) func(report) (float64, bool) {
	return func(r report) (float64, bool) {
		res, ok := r.sessions[name]
		if !ok {
			return 0, false
		}
		return ratios(shopSamples(res, servers.ShopVitrine), shopSamples(res, other), cpuTimeOf).median, true
	}
}
