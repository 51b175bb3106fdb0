package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A small heap is collected seldom, unless GOGC says otherwise.
func TestSmallHeapIsCollectedSeldom(t *testing.T) {
	text := strings.Repeat("x", 64<<10)
	runs := func(env ...string) float64 {
		s := serveHTTP(t, withEnv(env...))
		before := s.metrics(t)["go_gc_duration_seconds"].GetMetric()[0].GetSummary().GetSampleCount()
		for i := range 500 {
			a := s.post(t, call(i, "echo", object{"text": text}))
			require.Contains(t, string(a.body), text[:99], "call %d", i)
		}
		m := s.metrics(t)
		t.Logf("%v: %.0f MB resident", env, m.sum("process_resident_memory_bytes")/1e6)
		return float64(m["go_gc_duration_seconds"].GetMetric()[0].GetSummary().GetSampleCount() - before)
	}
	plain, paced := runs("GOGC=100"), runs()
	t.Logf("with GOGC=100 %v runs of the collector, without %v", plain, paced)
	require.Greater(t, paced, 0.0)
	require.Less(t, paced*2, plain)
}
