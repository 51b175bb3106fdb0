// Package ratiotest decides whether one thing costs about as much as another, of which a test measures both in turns.
// It is for tests only. Nested modules such as e2e may import it too.
package ratiotest

import "slices"

// Ratios has the ratio of both costs in each round, in the order of the rounds.
type Ratios []float64

const (
	// lead is by how many rounds one side of the bound must be ahead of the other one. If a ratio is on one side in 7
	// of 10 rounds, the other one is ahead by so many first in one of 2,000 tests: (3/7)⁹.
	lead = 9
	// mostRounds is odd, so that one side is ahead at the end.
	mostRounds = 99
)

// Within reports whether the ratio is at most bound. known is false if that takes more rounds. When it is true the test
// must stop, and take the answer.
//
// With a number of rounds, which should be odd, the median of all of them decides. With 0 there are as many rounds as it
// takes: few if the ratio is far from the bound, as in a test that runs often. Neither stops at the first median within the
// bound: a test that does has many attempts, and would often pass with a ratio that is above.
func (r Ratios) Within(bound float64, rounds int) (within, known bool) {
	if rounds > 0 {
		return len(r) >= rounds && r.Median() <= bound, len(r) >= rounds
	}
	ahead := 0
	for _, ratio := range r {
		if ratio <= bound {
			ahead++
		} else {
			ahead--
		}
	}
	return ahead > 0, ahead >= lead || ahead <= -lead || len(r) >= mostRounds
}

// Median returns the ratio in the middle, or the mean of the two that are there. There must be one.
func (r Ratios) Median() float64 {
	sorted := slices.Sorted(slices.Values(r))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
