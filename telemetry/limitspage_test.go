package telemetry

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/telemetry/state"
)

// TestLimitsOfParts checks the limits that a server has without a flag: of telemetry, of authenticators, of the
// file of rules and of the audit.
func TestLimitsOfParts(t *testing.T) {
	tel, err := New(WithRecent(Recent{Spans: 7}), WithTenants(3), WithLiveListeners(2))
	require.NoError(t, err)
	src := &fixedSource{
		Auth:  auth.Stats{LimitsReached: map[string]uint64{"max_token_bytes": 5}, Limits: []auth.Limit{{Name: "max_token_bytes", Value: 9, Default: 8}}},
		Audit: []audit.SinkStats{{Waiting: 3, MaxRecords: audit.DefaultRecords}, {Waiting: 1, MaxRecords: audit.DefaultRecords}},
	}
	src.Policy.Limits = []auth.Limit{{Name: "max_policy_rules", Value: 4, Default: 4}}
	tel.AddSource(src)
	tel.metrics.count(MetricLimitReached, limitTenants)
	rows := map[string]report.Limit{}
	page := tel.reportLimits(nil)
	for _, l := range page.Limits {
		l.About, l.Unit = "", ""
		rows[l.Limit] = l
	}
	n := func(n uint64) *uint64 { return &n }
	waiting := 3
	require.Equal(t, map[string]report.Limit{
		"max_token_bytes":    {Limit: "max_token_bytes", Value: 9, Default: 8, From: "set", Reached: n(5)},
		"max_policy_rules":   {Limit: "max_policy_rules", Value: 4, Default: 4, From: "default", Reached: n(0)},
		"audit_queue":        {Limit: "audit_queue", Value: 32768, Default: 32768, From: "default", Used: &waiting, Reached: n(0)},
		"recent_traces":      {Limit: "recent_traces", Value: 64, Default: 64, From: "default"},
		"recent_spans":       {Limit: "recent_spans", Value: 7, Default: 64, From: "set"},
		"recent_total_spans": {Limit: "recent_total_spans", Value: 2048, Default: 2048, From: "default"},
		"live_listeners":     {Limit: "live_listeners", Value: 2, Default: 16, From: "set"},
		"max_change_bytes":   {Limit: "max_change_bytes", Value: 8 << 20, Default: 8 << 20, From: "default"},
		"max_tenants":        {Limit: "max_tenants", Value: 3, From: "set", Reached: n(1)},
	}, rows)
	require.Empty(t, page.OtherReached)
}

func TestLimitsPage(t *testing.T) {
	tel, err := New()
	require.NoError(t, err)
	tel.AddSource(&fixedSource{
		Shares:   []state.Share{{Limit: limits.NameSessions, Size: 10, Used: 7, Holding: 2, Largest: 6, Caller: "eve"}},
		Sessions: []SessionState{{Requests: 2}, {Requests: 5}},
		Outbound: []OutboundState{{Session: "a"}, {Session: "b"}, {Session: "b"}},
		Classes:  []mcp.ClassState{{Name: "heavy", Limit: 4, InUse: 3}},
		RateLimits: []state.RateLimit{{
			Name: "calls", Used: 0.5, Allowed: 9, Refused: 1, Buckets: 2,
		}},
		TaskStatus: map[mcp.TaskStatus]int{mcp.TaskWorking: 2, mcp.TaskCompleted: 3},
		Auth:       auth.Stats{LimitsReached: map[string]uint64{"max_token_bytes": 5}},
		Counters:   state.Counters{LimitsReached: map[string]uint64{limits.NameSessions: 12, "class:heavy": 8}},
	})
	tel.Count(MetricLimitReached, limits.NameOutbound) // by the package that checks it
	page := tel.reportLimits([]state.Limit{
		{Name: limits.NameSessions, Value: 10, Default: 10_000, From: report.LimitSet, Unit: "sessions", Flag: "--max-sessions", Env: "X_MAX_SESSIONS", About: "legacy HTTP sessions", Counted: true},
		{Name: limits.NameInFlight, Value: 256, Default: 256, From: report.LimitDefault, Unit: "requests", Counted: true},
		{Name: limits.NameOutbound, Value: 64, Default: 64, From: report.LimitDefault, Unit: "requests", Counted: true},
		{Name: limits.NameTasks, Value: 100, Default: 10_000, From: report.LimitMemory, Unit: "tasks", Counted: true},
		{Name: "hook_grace", Value: 1.5, Default: 5, From: report.LimitSet, Unit: "seconds"},
	})
	n := func(n int) *int { return &n }
	times := func(n uint64) *uint64 { return &n }
	require.Equal(t, []report.Limit{
		{
			Limit: "max_sessions", Value: 10, Default: 10_000, From: "set", Unit: "sessions", Used: n(7), Largest: n(6), Caller: "eve", Reached: times(12),
			Flag: "--max-sessions", Env: "X_MAX_SESSIONS", About: "legacy HTTP sessions",
		},
		{Limit: "max_in_flight", Value: 256, Default: 256, From: "default", Unit: "requests", Largest: n(5), Reached: times(0)},
		{Limit: "max_outbound", Value: 64, Default: 64, From: "default", Unit: "requests", Largest: n(2), Reached: times(1)},
		{Limit: "max_tasks", Value: 100, Default: 10_000, From: "max_memory", Unit: "tasks", Used: n(5), Reached: times(0)},
		{Limit: "hook_grace", Value: 1.5, Default: 5, From: "set", Unit: "seconds"},
		{Limit: "class:heavy", Value: 4, Default: 4, From: "set", Unit: "requests", Used: n(3), Reached: times(8)},
	}, slices.DeleteFunc(slices.Clone(page.Limits), func(l report.Limit) bool {
		return slices.ContainsFunc(tel.ownLimits(), func(own report.Limit) bool { return l.Limit == own.Limit })
	}))
	require.Equal(t, []report.RateLimit{{Name: "calls", Used: 0.5, Allowed: 9, Refused: 1, Buckets: 2}}, page.RateLimits)
	require.Equal(t, map[string]uint64{"max_token_bytes": 5}, page.OtherReached)

	var text strings.Builder
	page.WriteText(&text)
	reached, others, _ := strings.Cut(text.String(), "\nLIMIT ")
	require.Regexp(t, `(?m)^max_sessions +10 +set +10000 +7 +6 +eve +12 +sessions +--max-sessions$`, reached)
	require.Regexp(t, `(?m)^class:heavy +4 +set +4 +3 +- +- +8 +requests +-$`, reached)
	require.Regexp(t, `(?m)^hook_grace +1\.5s +set +5s +- +- +- +- +seconds +-$`, others)
	require.Regexp(t, `(?m)^calls +50 % +9 +1 +2$`, others)
	require.Contains(t, others, "of other parts were reached: max_token_bytes 5\n")
}
