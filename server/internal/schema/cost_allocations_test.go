//go:build !race

package schema

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/jsonvalue"
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
// items, as a multiple of what the JSON library takes to check the same text: in the median, because a try may be disturbed.
func TestUniqueItemsCostAFewTimesTheirReading(t *testing.T) {
	const most = 16
	s, err := Parse([]byte(`{"uniqueItems":true}`))
	require.NoError(t, err)
	for _, form := range []string{"%d", "-%d", "%d.5", "%de2", "1234567890%d", `"%x"`, "[%d]", `{"a":%d}`} {
		raw := repeated("[", func(i int) string { return fmt.Sprintf(form, i) }, "]", frame)
		var times []float64
		for range 7 {
			begin := cpu(t)
			require.True(t, jsontext.Value(raw).IsValid())
			read := cpu(t)
			_, err := s.Validate(context.Background(), Steps, raw)
			times = append(times, float64(cpu(t)-read)/float64(read-begin))
			if err != nil {
				require.ErrorIs(t, err, ErrSteps)
			}
		}
		slices.Sort(times)
		t.Logf("%s: %.1f times the reading", form, times)
		require.LessOrEqual(t, times[len(times)/2], float64(most), form)
	}
}

// Names that a message has twice were found when it was read. To look for them again takes more memory than the value.
func TestNamesAreComparedOnce(t *testing.T) {
	s, err := For(reflect.TypeFor[struct {
		Any any `json:"any"`
	}]())
	require.NoError(t, err)
	text := repeated(`{"any":[7e-320,`+strings.Repeat("7e-320,", jsonvalue.Few)+"{", func(i int) string { return fmt.Sprintf(`"x-%d":1`, i) }, "}]}", frame)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	faults, err := s.Decode(t.Context(), Steps, text, reflect.New(s.target.Elem()).Interface())
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	require.Empty(t, faults)
	t.Logf("%d KiB, of a text of %d", (after.TotalAlloc-before.TotalAlloc)>>10, len(text)>>10)
	require.LessOrEqual(t, after.TotalAlloc-before.TotalAlloc, uint64(15*len(text)))
}
