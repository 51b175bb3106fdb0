package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/vitrine-mcp/vitrine/bench/servers"
)

// everything measures the headline of Vitrine with everything on, and of its peers. Each request has an
// access token.
func (p plan) everything(programs programs, sink string) (r result, err error) {
	p.kinds, p.parts = servers.Everything(), false
	s := matching(regexp.MustCompile("^" + headline + "$"))[0]
	s.token = true
	backends, err := startRedis()
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, backends.stop()) }()
	s.backends = backends.addresses
	return p.measure(s, programs, sink)
}

// Everything returns the table of Vitrine with everything on and its peers.
func (r report) Everything() string {
	if r.everything.samples == nil {
		return ""
	}
	var b strings.Builder
	row := head(&b, "server", "CPU µs", "× floor", "× everything on", "allocations", "KB allocated", "answers/s", "p50", "p99")
	for i, k := range servers.Everything() {
		samples := r.everything.samples[i]
		median := func(value func(sample) float64) float64 { return spreadOf(samples, value).median }
		row(
			k.Title,
			format("%.1f", spreadOf(samples, func(s sample) float64 { return micros(s.cpu) })),
			format("%.2f", ratios(samples, r.withEverything(servers.Floor), cpuTimeOf)),
			format("%.2f", ratios(samples, r.withEverything(servers.EverythingOn), cpuTimeOf)),
			fmt.Sprintf("%.1f", median(func(s sample) float64 { return s.mallocs })),
			fmt.Sprintf("%.1f", median(func(s sample) float64 { return s.bytes })/1000),
			fmt.Sprintf("%.0f", median(sample.rate)),
			duration(median(func(s sample) float64 { return float64(s.p50) })),
			duration(median(func(s sample) float64 { return float64(s.p99) })),
		)
	}
	return b.String()
}

// withEverything returns the samples of a server beside Vitrine with everything on; nil if there are none.
func (r report) withEverything(server string) []sample {
	if r.everything.samples == nil {
		return nil
	}
	return r.everything.samples[slices.IndexFunc(servers.Everything(), func(k servers.Kind) bool { return k.Name == server })]
}

// beside returns the CPU time of one server as a multiple of that of another, beside Vitrine with everything on.
func beside(server, other string) func(report) (float64, bool) {
	return func(r report) (float64, bool) {
		if r.everything.samples == nil {
			return 0, false
		}
		return ratios(r.withEverything(server), r.withEverything(other), cpuTimeOf).median, true
	}
}
