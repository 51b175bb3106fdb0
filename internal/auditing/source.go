package auditing

import (
	"time"

	"github.com/vitrine-mcp/vitrine/telemetry"
)

// Snapshot implements [telemetry.Source]: what the audit has counted.
func (o *Observer) Snapshot() *telemetry.Snapshot {
	return &telemetry.Snapshot{At: time.Now(), Audit: o.log.Stats()}
}
