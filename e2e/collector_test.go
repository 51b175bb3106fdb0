package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The small heap of a busy process is collected seldom, about once a second, unless GOGC says otherwise.
func TestSmallHeapIsCollectedSeldom(t *testing.T) {
	text := strings.Repeat("x", 64<<10)
	runs := func(env ...string) (runs, seconds float64) {
		s := serveHTTP(t, withEnv(env...))
		began, before := time.Now(), s.metrics(t)["go_gc_duration_seconds"].GetMetric()[0].GetSummary().GetSampleCount()
		for i := range 500 {
			a := s.post(t, call(i, "echo", object{"text": text}))
			require.Contains(t, string(a.body), text[:99], "call %d", i)
		}
		m := s.metrics(t)
		t.Logf("%v: %.0f MB resident", env, m.sum("process_resident_memory_bytes")/1e6)
		return float64(m["go_gc_duration_seconds"].GetMetric()[0].GetSummary().GetSampleCount() - before), time.Since(began).Seconds()
	}
	plain, _ := runs("GOGC=100")
	paced, seconds := runs()
	t.Logf("with GOGC=100 %v runs of the collector, without %v in %.1f s", plain, paced, seconds)
	require.Greater(t, paced, 0.0)
	require.Less(t, paced, max(plain/2, 10+2*seconds), "some runs before it is known to be busy, and then one a second")
}
