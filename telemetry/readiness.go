package telemetry

import (
	"time"

	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/internal/session"
)

// Readiness is the result of the last readiness probe of a server.
type Readiness struct {
	State string    // ready, not_ready or draining; "" before the first probe
	Since time.Time // when the state was found
	Why   string    // the failing checks and their errors
}

// worse returns the readiness for a page about several servers: that of a server that is not
// ready, if there is one.
func (r Readiness) worse(than *report.Readiness) *report.Readiness {
	if r.State == "" || than != nil && than.State != session.Ready {
		return than
	}
	return &report.Readiness{State: r.State, Since: r.Since, Why: r.Why}
}
