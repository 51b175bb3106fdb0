//go:build !race

package session

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestCostAllocations holds the budgets of the core. Not under the race detector, with
// which a sync.Pool forgets on purpose.
func TestCostAllocations(t *testing.T) {
	for _, row := range costRows() {
		t.Run(row.name, func(t *testing.T) {
			pass := row.pass(t)
			for range 100 { // what is made once, and kept
				pass()
			}
			assert.LessOrEqual(t, testing.AllocsPerRun(1000, pass), row.max)
		})
	}
}
