package service

import (
	"math/bits"
	"sync/atomic"
)

// endings remembers of the last 64 connections that ended which ones had not got an answer to their last request. It is
// safe for concurrent use.
type endings struct{ unanswered atomic.Uint64 } // a bit for each connection, the lowest one for the last

// manyUnanswered is how many of 64 connections end without an answer only if their callers hang up: a quarter.
const manyUnanswered = 16

// note remembers the end of a connection.
func (e *endings) note(answered bool) {
	bit := uint64(1)
	if answered {
		bit = 0
	}
	for {
		old := e.unanswered.Load()
		if e.unanswered.CompareAndSwap(old, old<<1|bit) {
			return
		}
	}
}

// hangUps reports whether many callers hang up before they are answered.
func (e *endings) hangUps() bool { return bits.OnesCount64(e.unanswered.Load()) >= manyUnanswered }
