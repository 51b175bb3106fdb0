package service

import (
	"sort"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/server"
)

// signalBytes is what one signal of max_pending_signals takes, and the quarter as many that may wait again.
const signalBytes = 20 << 10

// reservedBytes returns the memory that those parts of the process may take whose bounds are not of the
// server: the queues of the audit, verified tokens, signals to other replicas, and the flight recorder. That has its
// snapshots, one more for a moment, the window, and a buffer of up to twice a snapshot while one is taken.
func reservedBytes(cfg *Config, a *access, l server.Limits) int {
	n := a.maxBytes()
	if cfg.Store != "" {
		n += limits.Limits(l).WithDefaults().MaxPendingSignals * signalBytes
	}
	if f := cfg.Flight; f.On && !cfg.adminOff() {
		n += f.Bytes * (f.Keep + 4)
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

// withReserved returns limits that reserve n bytes more, or as many MiB of them as fit: the program may be started with any
// limits with which it could be started without them.
func withReserved(l server.Limits, n int) server.Limits {
	if n <= 0 || l.Check() != nil {
		return l
	}
	own := l.ReservedBytes
	if l.ReservedBytes = own + n; l.Check() == nil {
		return l
	}
	tooMuch := sort.Search(n>>20+1, func(mib int) bool { // at least 1: own alone fits
		l.ReservedBytes = own + mib<<20
		return l.Check() != nil
	})
	l.ReservedBytes = own + (tooMuch-1)<<20
	return l
}
