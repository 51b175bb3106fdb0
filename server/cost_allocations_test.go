//go:build !race

package server_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestCostAllocations checks the budgets of whole calls. It does not run with the race detector,
// with which a sync.Pool drops objects on purpose.
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
