//go:build !race

package server_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server"
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

// TestWaitingListenerAllocations checks that a goroutine which waits for the end of a subscription has so little
// on its stack that the garbage collector gives half of it back: 4 KB are left of 8.
func TestWaitingListenerAllocations(t *testing.T) {
	const listeners, budget = 500, 6 << 10
	srv := newServer(t)
	server.AddTool(srv, server.Tool{Name: "hi"}, text("hello"))
	p := dial(t, srv)
	inUse := func() int64 {
		var m runtime.MemStats
		for range 3 { // stacks shrink by half each time
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return int64(m.StackInuse)
	}
	before := inUse()
	for i := range listeners {
		require.JSONEq(t, acknowledged(i, `{"toolsListChanged":true}`), p.ask(listenTo(i, `{"toolsListChanged":true}`)))
	}
	subscribed(t, srv, listeners)
	each := (inUse() - before) / listeners
	t.Logf("%d bytes of stack for each listener", each)
	assert.LessOrEqual(t, each, int64(budget))
}
