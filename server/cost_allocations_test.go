//go:build !race

package server_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestCostAllocations holds the budgets of whole calls. Not under the race detector, with
// which a sync.Pool forgets on purpose.
func TestCostAllocations(t *testing.T) {
	for _, row := range costRows() {
		t.Run(row.name, func(t *testing.T) {
			call := row.call(t)
			for range 100 { // what is made once, and kept
				call()
			}
			assert.LessOrEqual(t, testing.AllocsPerRun(1000, call), row.max)
		})
	}
}
