//go:build !race

package schema

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

// TestAllocationsOfAValidationAreBounded holds the bytes that one validation allocates.
func TestAllocationsOfAValidationAreBounded(t *testing.T) {
	for _, c := range costCases {
		t.Run(c.name, func(t *testing.T) {
			s, err := Parse([]byte(c.schema))
			require.NoError(t, err)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			begin := cpu(t)
			faults, err := s.Validate(context.Background(), Steps, c.value)
			took := cpu(t) - begin
			runtime.ReadMemStats(&after)
			t.Logf("%7d KiB, %v, %d faults, %v", (after.TotalAlloc-before.TotalAlloc)>>10, took.Round(10*time.Microsecond), len(faults), err)
			require.LessOrEqual(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20))
			if err != nil {
				require.True(t, c.steps)
				require.ErrorIs(t, err, ErrSteps)
				return
			}
			require.Equal(t, c.valid, len(faults) == 0)
		})
	}
}

// TestUniqueItemsCostAFewTimesTheirReading holds the CPU time of uniqueItems for arrays of different
// items, as a multiple of what the JSON library takes to check the same text.
func TestUniqueItemsCostAFewTimesTheirReading(t *testing.T) {
	const most = 16
	s, err := Parse([]byte(`{"uniqueItems":true}`))
	require.NoError(t, err)
	for _, form := range []string{"%d", "-%d", "%d.5", "%de2", "1234567890%d", `"%x"`, "[%d]", `{"a":%d}`} {
		raw := repeated("[", func(i int) string { return fmt.Sprintf(form, i) }, "]", frame)
		reading, took := time.Hour, time.Hour
		for range 5 {
			begin := cpu(t)
			require.True(t, jsontext.Value(raw).IsValid())
			read := cpu(t)
			_, err := s.Validate(context.Background(), Steps, raw)
			reading, took = min(reading, read-begin), min(took, cpu(t)-read)
			if err != nil {
				require.ErrorIs(t, err, ErrSteps)
			}
		}
		t.Logf("%s: %v, %.1f times the reading", form, took, float64(took)/float64(reading))
		require.LessOrEqual(t, took, most*reading, form)
	}
}
