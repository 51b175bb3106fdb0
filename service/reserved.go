package service

import (
	"sort"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/server"
)

// signalBytes is what one signal of max_pending_signals takes, and the quarter as many that may wait again.
const signalBytes = 20 << 10

// reservedBytes returns the memory that those parts of the process may take whose bounds are not of the
// server: the queues of the audit, verified tokens, signals to other replicas, and snapshots of the flight recorder.
func reservedBytes(cfg *Config, a *access, l server.Limits) int {
	n := a.maxBytes()
	if cfg.Store != "" {
		n += limits.Limits(l).WithDefaults().MaxPendingSignals * signalBytes
	}
	if f := cfg.Flight; f.On {
		n += f.Bytes * f.Keep
	}
	return n
}

// maxBytes returns the memory that the audit and verified tokens may take.
func (a *access) maxBytes() (n int) {
	if a == nil {
		return 0
	}
	if a.resource != nil {
		n = a.resource.MaxBytes()
	}
	return n + a.audit.MaxBytes()
}

// withReserved returns limits that leave n bytes of their MaxMemory to such parts, unless they say themselves how much
// they leave. If not all of it fits they leave as much as does, in MiB: a limit that was set is never an error because of it.
func withReserved(l server.Limits, n int) server.Limits {
	if l.ReservedBytes != 0 || n <= 0 || l.Check() != nil {
		return l
	}
	all := l
	if all.ReservedBytes = n; all.Check() == nil {
		return all
	}
	l.ReservedBytes = (sort.Search(n>>20, func(mib int) bool {
		all.ReservedBytes = mib << 20
		return all.Check() != nil
	}) - 1) << 20
	return l
}
