package report

import "time"

// Readiness is whether requests should be sent here, as the last probe has found.
type Readiness struct {
	State string    `json:"state"` // ready, not_ready, draining
	Since time.Time `json:"since"`
	Why   string    `json:"why,omitempty"` // which checks fail, and their errors
}
