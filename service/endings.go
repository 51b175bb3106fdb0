package service

import (
	"math/bits"
	"sync"
	"time"
)

// endings remembers of the last 64 connections that ended which ones had not got an answer to their last request, or had sent
// none. It forgets them when no connection has ended for a second, so that a few health checks in a minute, which only connect, are
// no flood. It is safe for concurrent use.
type endings struct {
	now func() time.Time

	mu         sync.Mutex // guards the rest
	unanswered uint64     // a bit for each connection, the lowest one for the last
	last       time.Time  // when that one ended
}

// manyUnanswered is how many of 64 connections must end without an answer for many callers to hang up: a quarter.
const manyUnanswered = 16

// remembered is how long endings count after the last one.
const remembered = time.Second

// note remembers the end of a connection.
func (e *endings) note(answered bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.forget()
	e.last = e.now()
	if e.unanswered <<= 1; !answered {
		e.unanswered |= 1
	}
}

// hangUps reports whether many callers hang up before they are answered.
func (e *endings) hangUps() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.forget()
	return bits.OnesCount64(e.unanswered) >= manyUnanswered
}

// forget forgets endings that were too long ago.
func (e *endings) forget() {
	if e.now().Sub(e.last) > remembered {
		e.unanswered = 0
	}
}
