//go:build unix && !race

package server_test

import (
	"flag"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/ratiotest"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/store"
)

// sealedRounds is for a test that must not depend on the rounds in which it is lucky.
var sealedRounds = flag.Int("sealed.rounds", 0, "in how many rounds TestSealedSessionAllocations compares; 0 is as many as it takes")

const (
	// sealedShare is how many times the CPU time of a call in a local session a sealed one may need.
	sealedShare      = 1.1
	callsOfCostRound = 2000
)

// TestSealedSessionAllocations compares calls in sessions with sealed ids, with and without a store, with those in
// local ones: allocations, and the CPU time of the process, which other programs do not add to.
func TestSealedSessionAllocations(t *testing.T) {
	rig := func(opts ...server.Option) func() {
		r := newLegacyRig(t, costServer(t, unsampled(t), nil, opts...))
		return func() { r.serve(t) }
	}
	local := rig()
	for name, sealed := range map[string]func(){
		"sealed ids":          rig(server.WithStateKeys(stateKey(1))),
		"sealed ids, a store": rig(server.WithStateKeys(stateKey(1)), server.WithStore(new(store.Memory).Store())),
	} {
		t.Run(name, func(t *testing.T) {
			assert.LessOrEqual(t, testing.AllocsPerRun(1000, sealed), testing.AllocsPerRun(1000, local))
			var shares ratiotest.Ratios
			within := false
			for known := false; !known; within, known = shares.Within(sealedShare, *sealedRounds) {
				a, b := local, sealed
				if len(shares)%2 == 1 {
					a, b = b, a
				}
				first, second := cpuTime(t, a), cpuTime(t, b)
				if len(shares)%2 == 1 {
					first, second = second, first
				}
				shares = append(shares, float64(second)/float64(first))
			}
			t.Logf("a call needs %.3f times the CPU time, the median of %d rounds", shares.Median(), len(shares))
			assert.True(t, within, "want %v times at most", sealedShare)
		})
	}
}

// cpuTime returns the CPU time of the process for the calls of a round.
func cpuTime(t *testing.T, call func()) time.Duration {
	used := func() time.Duration {
		var u syscall.Rusage
		require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	for range callsOfCostRound {
		call()
	}
	return used() - before
}
