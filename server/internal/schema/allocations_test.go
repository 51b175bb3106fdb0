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
		if _, ok := s.shape.admits(goodForecast, 0); !ok {
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

// A large text that may become values of type any is decoded once, also if a number is not one that its Go type reads or holds.
func TestLooseAllocations(t *testing.T) {
	type loose struct {
		Any   any   `json:"any"`
		Count int64 `json:"count"`
	}
	s, err := For(reflect.TypeFor[loose]())
	require.NoError(t, err)
	decode := func(count string) float64 {
		raw := []byte(`{"any":[` + strings.Repeat(`[[[[]]]],`, 2000) + `1],"count":` + count + `}`)
		return testing.AllocsPerRun(10, func() {
			faults, err := s.Decode(t.Context(), Steps, raw, new(loose))
			if err != nil || len(faults) > 0 && count != "99999999999999999999" {
				t.Fatal(faults, err)
			}
		})
	}
	good := decode("1")
	for _, count := range []string{"2.0", "99999999999999999999"} {
		assert.Less(t, decode(count), good*1.1, count)
	}
}
