package session

import "time"

// A Readiness is whether requests should be sent to a server, as it has told its last
// probe. The core has no part in it: it is in the snapshot for those who read that.
type Readiness struct {
	State string    // one of [ReadinessStates]; "" if nobody has asked yet
	Since time.Time // when that was found
	Why   string    // which checks fail, and their errors
}

// The states of a [Readiness].
const (
	Ready    = "ready"
	NotReady = "not_ready"
	Draining = "draining" // the server shuts down, or is about to
)

// ReadinessStates lists the states.
func ReadinessStates() []string { return []string{Ready, NotReady, Draining} }
