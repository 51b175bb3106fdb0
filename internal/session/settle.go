package session

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// An outcome is the decision whether a request gets an answer. It is made once.
type outcome uint32

const (
	open       outcome = iota // not decided
	answering                 // one answer, the handler's or an error of ours
	suppressed                // no answer
)

// verdict is the one atomic word in which a request's life is decided: its
// outcome, the cause of its cancellation, and whether its handler was called.
// The first swap wins; a later one changes nothing.
type verdict struct{ word atomic.Uint32 }

const (
	outcomeMask  = 0x3
	startedBit   = 0x4
	listeningBit = 0x8
	causeShift   = 8 // the index of the cause + 1; 0 is none
)

func (v *verdict) outcome() outcome { return outcome(v.word.Load() & outcomeMask) }

func (v *verdict) started() bool { return v.word.Load()&startedBit != 0 }

func (v *verdict) listening() bool { return v.word.Load()&listeningBit != 0 }

// cancelled reports whether there is a cause.
func (v *verdict) cancelled() bool { return v.word.Load()>>causeShift != 0 }

// causeIn returns the cause in the word of a verdict, or "".
func causeIn(word uint32) mcp.Cause {
	if i := word >> causeShift; i != 0 {
		return causes[i-1]
	}
	return ""
}

// byClient reports whether the client has cancelled the request or left.
func (v *verdict) byClient() bool { return clientsCause(causeIn(v.word.Load())) }

func clientsCause(c mcp.Cause) bool {
	return c == mcp.CauseClientCancel || c == mcp.CauseClientDisconnect
}

// dropReason is why a notification of a request that is settled or cancelled is
// not sent.
func (v *verdict) dropReason() mcp.DropReason {
	word := v.word.Load()
	switch cause := causeIn(word); {
	case clientsCause(cause):
		return mcp.DropCancelled
	case outcome(word&outcomeMask) == answering || cause == "":
		return mcp.DropAfterResponse
	}
	switch causeIn(word) {
	case mcp.CauseTransportError:
		return mcp.DropBrokenPeer
	case mcp.CauseSessionDelete, mcp.CauseSessionIdle, mcp.CauseSessionEvicted:
		return mcp.DropSessionGone
	case mcp.CauseTransportClose, mcp.CauseServerShutdown, mcp.CauseOperator:
		return mcp.DropClosedWriter
	}
	return mcp.DropCancelled
}

// settle decides the outcome, unless one of the given bits is set. cause is an
// index of causes, or -1 when nothing is cancelled. It returns whether this call decided,
// and whether it also set the cause, which an earlier cancellation may have done.
func (v *verdict) settle(unless uint32, to outcome, cause int) (won, first bool) {
	for {
		old := v.word.Load()
		if outcome(old&outcomeMask) != open || old&unless != 0 {
			return false, false
		}
		next := old | uint32(to)
		if first = cause >= 0 && old>>causeShift == 0; first {
			next |= uint32(cause+1) << causeShift
		}
		if v.word.CompareAndSwap(old, next) {
			return true, first
		}
	}
}

// cancel sets the cause of an undecided request and leaves the outcome open.
func (v *verdict) cancel(cause int) bool {
	for {
		old := v.word.Load()
		if outcome(old&outcomeMask) != open || old>>causeShift != 0 {
			return false
		}
		if v.word.CompareAndSwap(old, old|uint32(cause+1)<<causeShift) {
			return true
		}
	}
}

// start marks that the handler is about to be called; false means that the
// request was settled while it waited.
func (v *verdict) start() bool { return v.mark(startedBit) }

// listen marks that the request has become a subscription; false means that it was settled
// before.
func (v *verdict) listen() bool { return v.mark(listeningBit) }

func (v *verdict) mark(bit uint32) bool {
	for {
		old := v.word.Load()
		if outcome(old&outcomeMask) != open {
			return false
		}
		if v.word.CompareAndSwap(old, old|bit) {
			return true
		}
	}
}

// causes and dropReasons have the values of the counters' arrays, by their position.
var causes, dropReasons = mcp.Causes(), mcp.ResponseDropReasons()

const (
	numCauses      = 11
	numDropReasons = 8
)

// indexOf returns the position of a value that must be there.
func indexOf[T comparable](values []T, v T) int {
	i := slices.Index(values, v)
	if i < 0 {
		panic(fmt.Sprintf("session: unknown value %v", v))
	}
	return i
}
