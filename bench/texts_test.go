package main

import (
	"io"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/bench/servers"
)

// Texts beyond the default limits pass, and each answer has the whole text.
func TestTextsAreMeasured(t *testing.T) {
	sizes := []int{64 << 10, 5 << 20}
	p := plan{scale: scale{texts: sizes, only: regexp.MustCompile("^scale/texts$")}, rounds: 1, slice: time.Millisecond, progress: io.Discard}
	got, err := p.run()
	skipElsewhere(t, err)
	require.NoError(t, err)
	require.Len(t, got.scaled.texts, len(sizes))
	for i, bytes := range sizes {
		r := got.scaled.texts[i]
		require.Equal(t, bytes, r.bytes)
		for j, k := range servers.Reading() {
			require.Len(t, r.samples[j], 1)
			require.Greater(t, r.samples[j][0].answer, bytes, k.Name)
			require.Greater(t, r.samples[j][0].bytes, float64(bytes), k.Name)
		}
	}
}

func TestPlainTextIsNotEscaped(t *testing.T) {
	m := render(scenario{kind: call, size: size{bytes: 1000, plain: true}})
	require.Len(t, m.text, 1000)
	require.Contains(t, string(m.body), `"text":"`+m.text+`"`)
}

func TestTextsReport(t *testing.T) {
	require.Contains(t, report{}.Goals(), "| a text of 16 MiB in and out, run by package service: CPU time, × all promises by hand | ≤ 1 | (not measured) |  |")
	const bytes = 1 << 20
	of := func(cpu time.Duration, allocated float64) []sample {
		return []sample{{requests: 1, took: time.Second, cpu: cpu, bytes: allocated * bytes, p50: 5 * time.Millisecond}}
	}
	r := report{outcome: outcome{scaled: scaleResult{texts: []textResult{
		{bytes, [][]sample{of(bytes, 1), of(6*bytes, 5), of(4*bytes, 6), of(3*bytes, 4), of(2*bytes, 3)}}, // a nanosecond of CPU time for each byte is a millisecond for a MB
	}}}}
	require.Contains(t, r.Scale(), "| bare echo | 1 MiB | 1.00 (1.00–1.00) | 1.00 (1.00–1.00) | 0.25 (0.25–0.25) | 0 | 1.00 | 5.00 ms |")
	require.Contains(t, r.Scale(), "| Vitrine, traces unsampled | 1 MiB | 3.00 (3.00–3.00) | 3.00 (3.00–3.00) | 0.75 (0.75–0.75) | 0 | 4.00 | 5.00 ms |")
	require.Contains(t, r.Goals(), "| a text of 1 MiB in and out, run by package service: CPU time, × all promises by hand | ≤ 1 | 0.50 | reached |")
	require.Contains(t, r.Goals(), "| a text of 64 KiB in and out, run by package service: CPU time, × all promises by hand | ≤ 1 | (not measured) |  |")
}
