package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/bench/servers"
)

// A goal has the measured value, and whether it was reached.
func TestGoalsReportWhatWasMeasured(t *testing.T) {
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
			plan: plan{kinds: []servers.Kind{{Name: "floor"}, {Name: "vitrine"}, {Name: "gosdk-mended"}}},
			outcome: outcome{results: []result{{scenario: call, samples: [][]sample{
				of(100, 50), of(vitrine, mallocs), of(300, 400),
			}}}},
		}.Goals()
	}
	good := table(90, 75)
	require.Contains(t, good, "| CPU time of the Go SDK with its decoder mended, × Vitrine | ≥ 3 | 3.33 | reached |")
	require.Contains(t, good, "| allocations of the whole process | ≤ 75 | 75.00 | reached |")
	require.Contains(t, good, "| traces unsampled: CPU time, × all promises by hand | ≤ 1 | (not measured) |  |")
	require.Contains(t, table(100, 75.4), "| allocations of the whole process | ≤ 75 | 75.400 | **missed** |", "no 75.40 beside 75")
	bad := table(160, 76)
	require.Contains(t, bad, "| CPU time of the Go SDK with its decoder mended, × Vitrine | ≥ 3 | 1.88 | **missed** |")
	require.Contains(t, bad, "| allocations of the whole process | ≤ 75 | 76.00 | **missed** |")

	legacy := scenario{}
	for _, s := range scenarios() {
		if s.name() == goalLegacy {
			legacy = s
		}
	}
	eras := report{
		plan:    plan{kinds: []servers.Kind{{Name: "vitrine"}}},
		outcome: outcome{results: []result{{scenario: call, samples: [][]sample{of(100, 50)}}, {scenario: legacy, samples: [][]sample{of(120, 50)}}}},
	}
	require.Contains(t, eras.Goals(), "| legacy: CPU time, × modern | ≤ 1.1 | 1.20 | **missed** |")

	scaled := report{outcome: outcome{scaled: testScale()}}.Goals()
	require.Contains(t, scaled, "| an open stream, beyond net/http | ≤ 12 KB | 3.00 KB | reached |")
	require.Contains(t, scaled, "| an idle legacy session | ≤ 3 KB | 2.25 KB | reached |")
	require.Contains(t, scaled, "| CPU time of a call beside all sessions and streams, × beside 16 sessions | ≤ 1.05 | 1.03 | reached |")
	require.Contains(t, scaled, "| one change told to all streams: CPU time of a listener, × net/http | ≤ 1.5 | 1.50 | reached |")

	small := report{outcome: outcome{release: testRelease(1)}}
	require.Contains(t, small.Goals(), "| from exec to the first answer | ≤ 100 ms | 40.00 ms | reached |")
	require.Contains(t, small.Goals(), "| the binary of a release | ≤ 30 MB | 20.00 MB | reached |")
	require.Contains(t, small.Goals(), "| resident when idle, at most, after an answer or a scrape, without the pages of its file | ≤ 9 MB | 10.00 MB | **missed** |")
	require.Contains(t, small.Goals(), "| … and when it was scraped again and again | ≤ 9 MB | 26.00 MB | **missed** |")
	require.Equal(t, 2, small.Missed())
	large := report{outcome: outcome{release: testRelease(3)}}
	require.Contains(t, large.Goals(), "| from exec to the first answer | ≤ 100 ms | 120.00 ms | **missed** |")
	require.Contains(t, large.Goals(), "| the binary of a release | ≤ 30 MB | 60.00 MB | **missed** |")
	require.Contains(t, large.Goals(), "| resident when idle, at most, after an answer or a scrape, without the pages of its file | ≤ 9 MB | 30.00 MB | **missed** |")
	require.Equal(t, 4, large.Missed())
}
