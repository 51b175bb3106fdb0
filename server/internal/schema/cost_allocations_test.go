//go:build !race

package schema

import (
	"context"
	"runtime"
	"testing"
	"time"

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
