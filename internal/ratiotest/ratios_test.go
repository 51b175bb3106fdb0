package ratiotest_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/ratiotest"
)

func TestMedian(t *testing.T) {
	for want, all := range map[float64]ratiotest.Ratios{1: {1}, 2: {3, 1, 2}, 2.5: {4, 1, 2, 3}} {
		require.InDelta(t, want, all.Median(), 0)
	}
}

// With a number of rounds the median of all of them decides, and none of fewer.
func TestFixedRounds(t *testing.T) {
	const bound = 1.1
	all := ratiotest.Ratios{}
	for _, ratio := range []float64{1, 1, 1.2, 1.2} {
		all = append(all, ratio)
		_, known := all.Within(bound, 5)
		require.False(t, known)
	}
	for last, want := range map[float64]bool{1.1: true, 1.11: false} {
		within, known := append(all, last).Within(bound, 5)
		require.True(t, known)
		require.Equal(t, want, within)
	}
}

// Without a number of rounds those decide that are far ahead, and of a ratio that is about the bound all of them.
func TestRoundsUntilOneSideIsAhead(t *testing.T) {
	const bound = 1.1
	rounds := func(ratio func(round int) float64) (n int, within bool) {
		all := ratiotest.Ratios{}
		for known := false; !known; {
			all = append(all, ratio(len(all)))
			within, known = all.Within(bound, 0)
		}
		return len(all), within
	}
	for ratio, want := range map[float64]bool{1: true, bound: true, 1.2: false} {
		n, within := rounds(func(int) float64 { return ratio })
		require.Equal(t, 9, n)
		require.Equal(t, want, within)
	}
	for first, want := range map[int]bool{0: true, 1: false} {
		n, within := rounds(func(round int) float64 { return 1 + float64((round+first)%2) })
		require.Equal(t, 99, n)
		require.Equal(t, want, within)
	}
}

// How often chance decides, when the rounds of a test differ as on a busy machine: a third of them by more than a seventh.
func TestChance(t *testing.T) {
	const bound, tests = 1.1, 10_000
	random := rand.New(rand.NewPCG(1, 2))
	passed := func(ratio float64, fixed int) (share float64) {
		for range tests {
			all, within := ratiotest.Ratios{}, false
			for known := false; !known; {
				all = append(all, ratio*math.Exp(0.15*random.NormFloat64()))
				within, known = all.Within(bound, fixed)
			}
			if within {
				share += 1. / tests
			}
		}
		return share
	}
	for _, fixed := range []int{0, 101} {
		require.Greater(t, passed(1, fixed), 0.999)
		require.Less(t, passed(1.2, fixed), 0.001)
		require.InDelta(t, 0.5, passed(bound, fixed), 0.05, "it is as likely to be above as below")
	}
	require.Less(t, passed(1.15, 101), 0.02)
	require.Less(t, passed(1.15, 0), 0.1)
}
