package report

import "time"

// Readiness is the result of the last readiness probe.
type Readiness struct {
	State string    `json:"state"` // ready, not_ready, draining
	Since time.Time `json:"since"`
	Why   string    `json:"why,omitempty"` // the failing checks and their errors
}
