package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// readiness knows whether requests should be sent to the server, as the last probe has
// found, and since when.
type readiness struct {
	mu     sync.Mutex
	checks []readinessCheck
	probes uint64 // that have begun
	seen   uint64 // the latest one whose outcome is known
	now    session.Readiness
	failed []string // the names of the checks that have failed
}

type readinessCheck struct {
	name  string
	check func(context.Context) error
}

// AddReadiness adds a check without which the server is not ready to be sent
// requests, such as a ping of a database. The checks run with every probe, one after the
// other. The name is in the answer to the probe, in the log, and a label of
// vitrine_readiness_changes_total. AddReadiness panics if the name is empty or the check nil.
func (s *Server) AddReadiness(name string, check func(context.Context) error) {
	if name == "" || check == nil {
		panic(fmt.Sprintf("server: readiness check %q: it needs a name and a function", name))
	}
	s.ready.mu.Lock()
	defer s.ready.mu.Unlock()
	s.ready.checks = append(s.ready.checks, readinessCheck{name, check})
}

// ErrDraining is what [Server.Ready] returns once the server shuts down.
var ErrDraining = errors.New("server: shutting down")

// Ready runs the readiness checks and returns what speaks against sending requests: a line
// for each check that fails, with its name, or [ErrDraining]. A change is logged
// (readiness.changed) and counted.
func (s *Server) Ready(ctx context.Context) error {
	checks, probe, draining := s.ready.begin()
	if draining {
		return ErrDraining
	}
	var failed []string
	var errs []error
	for _, c := range checks {
		if err := contained(ctx, c.check); err != nil {
			failed = append(failed, c.name)
			errs = append(errs, fmt.Errorf("%s: %w", c.name, err))
		}
	}
	err := errors.Join(errs...)
	s.noteReadiness(ctx, probe, failed, err)
	return err
}

// PrepareShutdown makes [Server.Ready] say no, while requests are still served: load
// balancers have the time until [Server.Shutdown] to send them elsewhere. Shutdown calls it
// too. Further calls do nothing.
func (s *Server) PrepareShutdown() {
	r := &s.ready
	r.mu.Lock()
	before := r.now
	if before.State != session.Draining {
		r.now, r.failed = session.Readiness{State: session.Draining, Since: time.Now()}, nil
	}
	r.mu.Unlock()
	if before.State != session.Draining && before.State != "" { // else nobody has asked
		s.readinessChanged(context.Background(), before, session.Readiness{State: session.Draining}, "")
	}
}

// begin begins a probe.
func (r *readiness) begin() (checks []readinessCheck, probe uint64, draining bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.probes++
	return r.checks, r.probes, r.now.State == session.Draining
}

// noteReadiness notes the outcome of a probe. Another one that has begun later, and was
// faster, knows better.
func (s *Server) noteReadiness(ctx context.Context, probe uint64, failed []string, err error) {
	now := session.Readiness{State: session.Ready, Since: time.Now()}
	if err != nil {
		now.State, now.Why = session.NotReady, strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	r := &s.ready
	r.mu.Lock()
	before, failedBefore := r.now, r.failed
	news := probe > r.seen && before.State != session.Draining
	changed := news && (now.State != before.State || !slices.Equal(failed, failedBefore))
	if news {
		r.seen = probe
	}
	if changed {
		r.now, r.failed = now, failed
	}
	r.mu.Unlock()
	if changed {
		s.readinessChanged(ctx, before, now, culprit(failed, failedBefore))
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

// readinessChanged tells of a change.
func (s *Server) readinessChanged(ctx context.Context, before, now session.Readiness, check string) {
	s.telemetry.Count(telemetry.MetricReadinessChanges, now.State, check)
	level, attrs := slog.LevelInfo, []any{"from", "unknown", "to", now.State}
	if before.State != "" {
		attrs[1] = before.State
		attrs = append(attrs, "lasted", time.Since(before.Since))
	}
	if now.State == session.NotReady {
		level, attrs = slog.LevelWarn, append(attrs, "why", now.Why)
	}
	s.logger.Log(ctx, level, "readiness.changed", attrs...)
}

// current returns what the last probe has found.
func (r *readiness) current() session.Readiness {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}
