package service

import (
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/telemetry/state"
)

// limitStates describes the limits of the server for /debug/limits.
func (p *process) limitStates() (list []state.Limit) {
	inForce, configured := limits.Limits(p.srv.Limits()), limits.Limits(p.srv.ConfiguredLimits())
	for _, b := range limits.All() {
		flag := limitFlag(b)
		row := state.Limit{Name: b.Name, Unit: b.Unit, Flag: "--" + flag, Env: p.env.name(flag), About: b.Usage, From: report.LimitDefault, Counted: b.Counted}
		set := false
		if field := b.Int(&inForce); field != nil {
			row.Value, row.Default, set = float64(*field), float64(b.Default.(int)), *b.Int(&configured) != 0
		} else {
			row.Unit = "seconds"
			row.Value, row.Default = b.Duration(&inForce).Seconds(), b.Default.(time.Duration).Seconds()
			set = *b.Duration(&configured) != 0
		}
		switch {
		case set:
			row.From = report.LimitSet
		case row.Value != row.Default:
			row.From = report.LimitMemory
		}
		list = append(list, row)
	}
	return list
}
