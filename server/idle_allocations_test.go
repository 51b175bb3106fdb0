//go:build !race

package server_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestIdleSessionAllocations checks how many bytes a legacy session keeps that has only been opened.
func TestIdleSessionAllocations(t *testing.T) {
	const budget = 3000 // bytes
	srv := costServer(t, unsampled(t), nil)
	rig := newExchangeRig(t, srv, "2025-11-25")
	inUse := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // pools forget what they have at the second one
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	const some, many = 100, 2000
	for range some { // what is made once, and kept
		rig.open(t)
	}
	before := inUse()
	for range many {
		rig.open(t)
	}
	kept := (inUse() - before) / many
	t.Logf("%d bytes for each session", kept)
	assert.LessOrEqual(t, kept, int64(budget))
}
