package changes

import (
	"math"
	"slices"
)

// A span is two windows: before, and after a change. The numbers are steps since the beginning of the
// history; the ends are not included.
type span struct{ beforeFrom, beforeTo, from, to int }

// The lengths of windows, in steps.
const (
	stepsPerMinute = 60 / StepSeconds
	blockSteps     = stepsPerMinute     // blocks of which the spread is measured
	halfBlock      = blockSteps / 2     // blocks in which a change must be seen again and again
	leastBefore    = 5 * stepsPerMinute // of a comparison
	mostBefore     = 60 * stepsPerMinute
	leastAfter     = 2 * stepsPerMinute
	leastRateAfter = 4 * stepsPerMinute // of a rate: two bursts may follow each other
	leastEnded     = 5 * stepsPerMinute // of a change that is over
)

// What a change must be at least.
const (
	leastOctaves  = 0.8  // of a mean or a rate
	leastExcess   = 8    // calls that end in another way
	leastRatio    = 1.5  // of shares
	leastPart     = 0.01 // of the calls
	leastCalls    = 20
	leastLasting  = 0.8 // part of the blocks after the change that show it
	leastSpread   = 0.15
	leastRateJump = 0.6  // part of a change of the rate that comes at once
	leastImpact   = 0.15 // change of the rate as a part of all calls
	leastShare    = 0.05 // of the change in all the traffic
	callsOfALevel = 20   // calls of a part of the traffic that weigh as much as the level of a larger part
	// A block counts for three degrees of freedom: one would hide an incident in the first quarter of an hour of a
	// process. TestLittleTrafficIsQuiet holds that three are few enough.
	freedomOfABlock = 3
)

// A comparison says how two windows differ.
type comparison struct {
	score         float64 // 0: no change
	before, after float64 // see series.value
}

// compare compares two windows of a part of the traffic. The score is about how many standard deviations
// the difference has. The deviation is that of the blocks before, so that bursts which were there before
// are no change.
func compare(m *measure, s *series, at span) (c comparison) {
	if at.beforeTo-at.beforeFrom < blockSteps || at.to <= at.from {
		return c
	}
	if m.kind == kindShare {
		return compareShares(s, at)
	}
	_, callsBefore := s.in(at.beforeFrom, at.beforeTo)
	_, callsAfter := s.in(at.from, at.to)
	if m.kind == kindRate {
		expected := callsBefore * float64(at.to-at.from) / float64(at.beforeTo-at.beforeFrom)
		if at.to-at.from < leastRateAfter || max(callsAfter, expected) < leastCalls {
			return c
		}
	} else if min(callsBefore, callsAfter) < leastCalls {
		return c
	}
	before := s.blocks(m, at.beforeFrom, at.beforeTo, blockSteps)
	after := s.blocks(m, at.from, at.to, halfBlock)
	if len(before) < 2 || len(after) == 0 {
		return c
	}
	c.before = median(before)
	c.after, _ = s.value(m, at.from, at.to)
	difference := c.after - c.before
	lasting := 0.0
	for _, v := range after {
		if difference > 0 && v > slices.Max(before) || difference < 0 && v < slices.Min(before) {
			lasting++
		}
	}
	if m.time() && difference < 0 || math.Abs(difference) < leastOctaves || lasting/float64(len(after)) < leastLasting {
		return c
	}
	spread := math.Hypot(deviation(before), leastSpread)
	independent := float64(min(max(len(after)/2, 1), 4))
	score := math.Abs(difference) / spread / math.Sqrt(1/independent+1/float64(len(before)))
	c.score = normal(score, freedomOfABlock*float64(len(before)-1))
	return c
}

// normal returns the number of standard deviations of a normal distribution that is as unlikely as a difference
// of which the deviation was estimated with so many degrees of freedom (Wallace's approximation of Student's
// distribution).
func normal(score, freedom float64) float64 {
	return math.Sqrt(freedom * math.Log1p(score*score/freedom))
}

func compareShares(s *series, at span) (c comparison) {
	sumBefore, callsBefore := s.in(at.beforeFrom, at.beforeTo)
	sum, calls := s.in(at.from, at.to)
	if min(calls, callsBefore) < leastCalls {
		return c
	}
	level := (sumBefore + 0.25) / (callsBefore + 0.5)
	c.before, c.after = sumBefore/callsBefore, sum/calls
	excess := sum - level*calls
	if excess < leastExcess || c.after < leastRatio*level || excess < leastPart*calls {
		return c
	}
	var excesses []float64
	for from := at.from; from < at.to; from += halfBlock {
		n, of := s.in(from, min(from+halfBlock, at.to))
		excesses = append(excesses, n-level*of)
	}
	if !lasts(excesses, excess) {
		return c
	}
	c.score = math.Sqrt(surprise(sumBefore, callsBefore, sum, calls) / dispersion(s, at, level))
	return c
}

// burstBlocks is how many half blocks a burst may have. One of a minute has parts in three.
const burstBlocks = 3

// lasts reports whether an excess is more than a burst: all blocks but those that have most of it have half
// of what an even change would give them.
func lasts(excesses []float64, sum float64) bool {
	slices.Sort(excesses)
	rest := sum
	for _, excess := range excesses[max(len(excesses)-burstBlocks, 0):] {
		rest -= excess
	}
	return rest >= sum*(1-burstBlocks/float64(len(excesses)))/2 && len(excesses) > burstBlocks
}

// surprise is the G statistic of two shares: about the square of the number of standard deviations.
func surprise(sum1, calls1, sum2, calls2 float64) float64 {
	level := (sum1 + sum2) / (calls1 + calls2)
	term := func(observed, expected float64) float64 {
		if observed == 0 {
			return 0
		}
		return observed * math.Log(observed/expected)
	}
	return 2 * (term(sum1, calls1*level) + term(calls1-sum1, calls1*(1-level)) + term(sum2, calls2*level) + term(calls2-sum2, calls2*(1-level)))
}

// dispersion is how much more the shares of blocks before the change vary than those of independent
// calls: calls that fail together make it larger.
func dispersion(s *series, at span, level float64) float64 {
	var sum, n float64
	for from := at.beforeFrom; from+blockSteps <= at.beforeTo; from += blockSteps {
		count, calls := s.in(from, from+blockSteps)
		if calls == 0 {
			continue
		}
		difference := count - level*calls
		sum += difference * difference / (level*calls*(1-min(level, 0.99)) + 0.05)
		n++
	}
	return max(sum/max(n-1, 1), 1)
}
