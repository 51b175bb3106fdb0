// Package report has the pages of the debug handlers of package telemetry, in JSON and as text for a
// terminal.
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
