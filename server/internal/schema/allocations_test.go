//go:build !race

package schema

import (
	"reflect"
	"strings"
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
		if _, ok := s.shape.admits(goodForecast, 0, new(oddities)); !ok {
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

// The many values of a long list need no memory of their own, and little work: json/v2 alone allocates for each any, and
// again and again for lists.
func TestAllocationsOfLongLists(t *testing.T) {
	type lists struct {
		Floats []float64 `json:"floats,omitempty"`
		Any    any       `json:"any,omitempty"`
	}
	s, err := For(reflect.TypeFor[lists]())
	require.NoError(t, err)
	for name, most := range map[string]float64{"floats": 10, "any": 60} {
		text := []byte(`{"` + name + `":[1` + strings.Repeat(",1", 30_000) + `]}`)
		allocs := testing.AllocsPerRun(3, func() {
			faults, err := s.Decode(t.Context(), Steps, text, new(lists))
			if err != nil || faults != nil {
				t.Fatal(faults, err)
			}
		})
		require.LessOrEqual(t, allocs, most, name)
	}
}
