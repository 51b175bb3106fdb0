// Package report has the pages that the debug handlers of package telemetry serve, as
// they are encoded in JSON and as they are written for a person at a terminal.
package report

// The states of a request.
const (
	StateQueued    = "queued"
	StateRunning   = "running"
	StateBlocked   = "blocked"
	StateWriting   = "writing"
	StateCancelled = "cancelled"
	StateListening = "listening"
)

// States lists the states of a request in their documented order.
func States() []string {
	return []string{StateQueued, StateRunning, StateBlocked, StateWriting, StateCancelled, StateListening}
}
