//go:build !race

package telemetry

import (
	"context"
	"testing"
)

// TestSampledAllocations holds the budget of a call that is sampled: the observation; of the
// SDK the span, its context, and twice room for attributes; and for processors the copy of
// the span and a map, with its parts, that tells attributes from each other. Not under the
// race detector, with which a sync.Pool forgets on purpose.
func TestSampledAllocations(t *testing.T) {
	o, r := ownObserver(t, "always_on"), finished(t, call("echo"))
	o.tel.recent.bounds.Traces = -1 // a trace that is kept is copied
	const budget = 9
	if allocs := testing.AllocsPerRun(200, func() { replay(o, context.Background(), r) }); allocs > budget {
		t.Errorf("a sampled call costs %v allocations; the budget is %v", allocs, budget)
	}
}
