//go:build !race

package server

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTimingOfMiddlewaresAllocatesNothing(t *testing.T) {
	allocations := func(middlewares int) float64 {
		s := plainServer(WithMiddleware(passes(middlewares)...))
		for range 100 { // what is made once, and kept
			exchangePlain(t, s)
		}
		return testing.AllocsPerRun(500, func() { exchangePlain(t, s) })
	}
	without := allocations(0)
	for _, n := range []int{1, 8, 20} {
		require.InDelta(t, without, allocations(n), 0.5, "%d middlewares", n)
	}
}
