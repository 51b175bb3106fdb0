package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/bench/servers"
)

// A goal says what was measured, and whether that is what was aimed at.
func TestGoals(t *testing.T) {
	call := scenario{}
	for _, s := range scenarios() {
		if s.name() == goalCall {
			call = s
		}
	}
	of := func(cpu time.Duration, mallocs float64) []sample {
		return []sample{{requests: 1, took: time.Second, cpu: cpu, mallocs: mallocs}}
	}
	table := func(vitrine time.Duration, mallocs float64) string {
		return report{
			plan: plan{kinds: []servers.Kind{{Name: "floor"}, {Name: "vitrine"}, {Name: "mcpgo-validating"}}},
			results: []result{{scenario: call, samples: [][]sample{
				of(100, 50), of(vitrine, mallocs), of(600, 400),
			}}},
		}.Goals()
	}
	good := table(90, 75)
	require.Contains(t, good, "| CPU time, × net/http + encoding/json | ≤ 1 | 0.90 | reached |")
	require.Contains(t, good, "| CPU time of mcp-go with validation, × Vitrine | ≥ 4 | 6.67 | reached |")
	require.Contains(t, good, "| allocations of the whole process | ≤ 75 | 75.00 | reached |")
	require.Contains(t, good, "| CPU time, × bare echo | ≤ 1.35 | (not measured) |  |")
	bad := table(160, 76)
	require.Contains(t, bad, "| CPU time, × net/http + encoding/json | ≤ 1 | 1.60 | **missed** |")
	require.Contains(t, bad, "| CPU time of mcp-go with validation, × Vitrine | ≥ 4 | 3.75 | **missed** |")
	require.Contains(t, bad, "| allocations of the whole process | ≤ 75 | 76.00 | **missed** |")

	scaled := report{scaled: testScale()}.Goals()
	require.Contains(t, scaled, "| an open stream, beyond net/http | ≤ 12 KB | 3.00 KB | reached |")
	require.Contains(t, scaled, "| an idle legacy session | ≤ 3 KB | 2.25 KB | reached |")
	require.Contains(t, scaled, "| CPU time of a call beside all sessions, × beside one | ≤ 1.1 | 1.05 | reached |")
}
