package telemetry

import (
	"time"

	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/internal/session"
)

// Readiness is whether requests should be sent to a server, as its last probe has found.
type Readiness struct {
	State string    // ready, not_ready or draining; "" if nobody has asked yet
	Since time.Time // when that was found
	Why   string    // which checks fail, and their errors
}

// worse returns what a page says of several servers: that of one which is not ready, if
// there is one.
func (r Readiness) worse(than *report.Readiness) *report.Readiness {
	if r.State == "" || than != nil && than.State != session.Ready {
		return than
	}
	return &report.Readiness{State: r.State, Since: r.Since, Why: r.Why}
}
