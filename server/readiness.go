package server

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// readiness runs the readiness checks and has the outcome of the last probe.
type readiness struct {
	logger    *slog.Logger
	telemetry *telemetry.Telemetry

	mu     sync.Mutex // guards the rest
	checks []readinessCheck
	probes uint64 // that have begun
	seen   uint64 // the latest probe whose outcome is known
	now    session.Readiness
	failed []string // the names of the checks that have failed
}

type readinessCheck struct {
	name  string
	check func(context.Context) error
}

// add adds a check.
func (r *readiness) add(c readinessCheck) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.checks = append(r.checks, c)
}

// drain makes the server not ready for good.
func (r *readiness) drain() {
	r.mu.Lock()
	before := r.now
	if before.State != session.Draining {
		r.now, r.failed = session.Readiness{State: session.Draining, Since: time.Now()}, nil
	}
	r.mu.Unlock()
	if before.State != session.Draining && before.State != "" { // else there was no probe
		r.changed(context.Background(), before, session.Readiness{State: session.Draining}, "")
	}
}

// begin begins a probe.
func (r *readiness) begin() (checks []readinessCheck, probe uint64, draining bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.probes++
	return r.checks, r.probes, r.now.State == session.Draining
}

// note notes the outcome of a probe, unless the outcome of a later probe is known already.
func (r *readiness) note(ctx context.Context, probe uint64, failed []string, err error) {
	now := session.Readiness{State: session.Ready, Since: time.Now()}
	if err != nil {
		now.State, now.Why = session.NotReady, strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	r.mu.Lock()
	before, failedBefore := r.now, r.failed
	isNew := probe > r.seen && before.State != session.Draining
	changed := isNew && (now.State != before.State || !slices.Equal(failed, failedBefore))
	if isNew {
		r.seen = probe
	}
	if changed {
		r.now, r.failed = now, failed
	}
	r.mu.Unlock()
	if changed {
		r.changed(ctx, before, now, culprit(failed, failedBefore))
	}
}

// culprit returns the first check that fails and did not fail before, else the first one.
func culprit(failed, before []string) string {
	for _, name := range failed {
		if !slices.Contains(before, name) {
			return name
		}
	}
	if len(failed) > 0 {
		return failed[0]
	}
	return ""
}

// changed logs and counts a change.
func (r *readiness) changed(ctx context.Context, before, now session.Readiness, check string) {
	r.telemetry.Count(telemetry.MetricReadinessChanges, now.State, check)
	level, attrs := slog.LevelInfo, []any{"from", "unknown", "to", now.State}
	if before.State != "" {
		attrs[1] = before.State
		attrs = append(attrs, "lasted", time.Since(before.Since))
	}
	if now.State == session.NotReady {
		level, attrs = slog.LevelWarn, append(attrs, "why", now.Why)
	}
	r.logger.Log(ctx, level, "readiness.changed", attrs...)
}

// current returns the outcome of the last probe.
func (r *readiness) current() session.Readiness {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}
