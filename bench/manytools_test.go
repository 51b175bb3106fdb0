package main

import (
	"io"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/bench/servers"
)

// Lists of all servers have as many tools as were asked for, also that of the one that hides some.
func TestManyToolsAreMeasured(t *testing.T) {
	p := plan{scale: scale{tools: 30, only: regexp.MustCompile("^scale/tools/30$")}, rounds: 1, slice: time.Millisecond, progress: io.Discard}
	got, err := p.run()
	skipElsewhere(t, err)
	require.NoError(t, err)
	require.Len(t, got.scaled.tools, 2)
	for i, request := range []kind{list, call} {
		r := got.scaled.tools[i]
		require.Equal(t, request, r.request)
		for j, k := range servers.Listing() {
			few, many := r.samples[j][0], r.samples[j][1]
			require.Len(t, few, goalRounds, k.Name)
			require.Len(t, many, goalRounds, k.Name)
			require.Equal(t, request == list, many[0].answer > 2*few[0].answer, k.Name)
		}
	}
}

func TestManyToolsReport(t *testing.T) {
	require.Contains(t, report{}.Goals(), "| tools/list with 1000 tools: CPU time, × bare echo of as many bytes | ≤ 1.5 | (not measured) |  |")
	of := func(few, many time.Duration) [2][]sample {
		at := func(cpu time.Duration) []sample {
			return []sample{{requests: 1, took: time.Second, cpu: cpu * time.Microsecond, answer: 200}}
		}
		return [2][]sample{at(few), at(many)}
	}
	r := report{outcome: outcome{scaled: scaleResult{scale: scale{tools: 1000}, tools: []toolsResult{
		{list, [][2][]sample{of(20, 200), of(40, 260), of(50, 900)}},
		{call, [][2][]sample{of(20, 20), of(40, 41), of(50, 60)}},
	}}}}
	require.Contains(t, r.Scale(), "| Vitrine, traces unsampled | tools/list | 1000 | 260.0 (260.0–260.0) | 6.50 (6.50–6.50) | 1.30 (1.30–1.30) |")
	require.Contains(t, r.Scale(), "| … and a policy that filters its lists | tools/call | 1000 | 60.0 (60.0–60.0) | 1.20 (1.20–1.20) | 3.00 (3.00–3.00) |")
	for _, want := range []string{
		"| tools/list with 1000 tools: CPU time, × bare echo of as many bytes | ≤ 1.5 | 1.30 | reached |",
		"| … and a policy that filters it | ≤ 3 | 4.50 | **missed** |",
		"| tools/call with 1000 tools: CPU time, × with 10 | ≤ 1.05 | 1.02 | reached |",
		"| … and a policy that filters lists | ≤ 1.05 | 1.20 | **missed** |",
	} {
		require.Contains(t, r.Goals(), want)
	}
}
