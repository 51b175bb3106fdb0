package policy

import (
	"sync/atomic"
	"time"

	"github.com/vitrine-mcp/vitrine/auth"
)

// Stats are counters of a policy, and its state.
type Stats struct {
	// LoadedAt is when the rules in use were loaded, and Digest the start of the SHA-256 digest of
	// their file in hexadecimal digits.
	LoadedAt time.Time
	Digest   string
	// Reloads and FailedReloads count new contents of the file that came into use, and those that did not.
	Reloads, FailedReloads uint64
	// ReloadError says why the present content of the file is not in use. It is nil if it is.
	ReloadError error
	// DryRun says that the whole file is a dry run.
	DryRun bool
	// Rules are the rules of the file in its order, and then the default ([RuleDefault]).
	Rules []RuleStats
	// Limits are the limits in force, see [Config].
	Limits []auth.Limit
}

// RuleStats are the decisions that a rule has made, without those about listed items.
type RuleStats struct {
	Name   string
	Effect auth.Effect
	DryRun bool
	// Line is the line of the file where the rule begins, and 0 for the default.
	Line int
	// Decided counts decisions, and Failed those of them that denied because the rule could not be
	// evaluated.
	Decided, Failed uint64
}

// counts are what a rule has decided.
type counts struct{ decided, failed atomic.Uint64 }

// add counts a decision. c may be nil.
func (c *counts) add(d *auth.Decision) {
	if c == nil {
		return
	}
	c.decided.Add(1)
	if d.Err != nil {
		c.failed.Add(1)
	}
}

// countsOf returns the counts of a rule, which go on when a file is loaded again. s may be nil.
func (s *ruleset) countsOf(name string) *counts {
	if s == nil {
		return new(counts)
	}
	if name == RuleDefault {
		return s.defaultCounts
	}
	for _, r := range s.rules {
		if r.name == name {
			return r.counts
		}
	}
	return new(counts)
}

func (c *counts) stats(name string, effect auth.Effect) RuleStats {
	return RuleStats{Name: name, Effect: effect, Decided: c.decided.Load(), Failed: c.failed.Load()}
}

// Stats returns the counters and the state.
func (p *Policy) Stats() Stats {
	p.mu.Lock()
	stats := p.state
	p.mu.Unlock()
	s := p.rules.Load()
	stats.DryRun, stats.Limits = s.dryRun, p.cfg.limits()
	for _, r := range s.rules {
		row := r.counts.stats(r.name, r.effect)
		row.DryRun, row.Line = r.dryRun, r.line
		stats.Rules = append(stats.Rules, row)
	}
	stats.Rules = append(stats.Rules, s.defaultCounts.stats(RuleDefault, s.byDefault))
	return stats
}
