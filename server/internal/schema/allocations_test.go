//go:build !race

package schema

import (
	"reflect"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Not under the race detector, with which a sync.Pool forgets on purpose.

// TestDecodeAllocations checks the cost of the fast path: one allocation for each string and
// slice of the result, and none for the checks.
func TestDecodeAllocations(t *testing.T) {
	s, err := For(reflect.TypeFor[forecastIn]())
	require.NoError(t, err)
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		if _, ok := s.shape.admits(goodForecast, 0, new(bool)); !ok {
			t.Fatal("refused")
		}
	}), "looking at the value")
	into := new(forecastIn)
	plain := testing.AllocsPerRun(100, func() {
		*into = forecastIn{}
		if jsonv2.Unmarshal(goodForecast, into) != nil {
			t.Fatal("refused")
		}
	})
	fast := testing.AllocsPerRun(100, func() {
		*into = forecastIn{}
		if s.Fill(goodForecast, into) != nil {
			t.Fatal("refused")
		}
	})
	assert.LessOrEqual(t, fast, plain, "Decode must allocate no more than json.Unmarshal does")
	assert.LessOrEqual(t, fast, 6.0)
}
