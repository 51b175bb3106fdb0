package session

import "github.com/vitrine-mcp/vitrine/mcp"

// A CancelledIn is the cause of a cancellation, and the phase of the request when it was cancelled.
type CancelledIn struct {
	Cause mcp.Cause
	Phase string // one of [CancelPhases]
}

// The phases in which a request can be cancelled. While its answer is written it is settled, and
// nothing cancels it.
const (
	cancelQueued    = iota // the handler was not called: a retry does nothing twice
	cancelRunning          // in middleware or the handler
	cancelBlocked          // the handler waited for the client's answer
	cancelListening        // a subscription
	numCancelPhases
)

var cancelPhases = [numCancelPhases]string{"queued", "running", "blocked", "listening"}

// CancelPhases lists the values of CancelledIn.Phase.
func CancelPhases() []string { return cancelPhases[:] }

// cancelPhase returns in which phase a request is that is being cancelled.
func (r *Request) cancelPhase() int {
	switch {
	case !r.started():
		return cancelQueued
	case r.verdict.listening():
		return cancelListening
	case Phase(r.phase.Load()) == PhaseBlocked:
		return cancelBlocked
	}
	return cancelRunning
}
