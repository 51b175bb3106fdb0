package service

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/vitrine-mcp/vitrine/auth/policy"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// PolicyConfig has the settings of the rules that decide what callers may do; see package auth/policy.
type PolicyConfig struct {
	// File is the path of the rules. It is read again when it changes. A file with a mistake is an
	// error at the start; later the rules from before stay in use, and the log says why.
	File string
	// DryRun decides and counts, and lets everything pass.
	DryRun bool
}

// newPolicy reads the rules. It returns nil if there is no file.
func newPolicy(cfg PolicyConfig, limitReached func(limit string), changed func()) (*policy.Policy, error) {
	if cfg.File == "" {
		return nil, nil
	}
	p, err := policy.Open(cfg.File, policy.Config{DryRun: cfg.DryRun, OnLimit: limitReached, OnReload: func(err error) {
		if err != nil {
			slog.Error("policy.reload", "error", err, "effect", "the rules that were read last stay in use")
			return
		}
		slog.Info("policy.reload", "file", cfg.File)
		changed() // clients list again
	}})
	if err != nil {
		return nil, fmt.Errorf("service: %w", err)
	}
	return p, nil
}

// policySource tells telemetry the state of the rules.
type policySource struct{ *policy.Policy }

// Snapshot implements [telemetry.Source].
func (p policySource) Snapshot() *telemetry.Snapshot {
	stats := p.Stats()
	s := &telemetry.Snapshot{At: time.Now()}
	s.Policy.Loaded, s.Policy.Failed, s.Policy.Stale = stats.Reloads, stats.FailedReloads, stats.ReloadError != nil
	s.Policy.Limits = stats.Limits
	return s
}
