package telemetry

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/mcp"
)

func TestLimitsPage(t *testing.T) {
	tel, err := New()
	require.NoError(t, err)
	tel.AddSource(&fixedSource{
		Shares:   []ShareState{{Limit: limits.NameSessions, Size: 10, Used: 7, Holding: 2, Largest: 6, Caller: "eve"}},
		Sessions: []SessionState{{Requests: 2}, {Requests: 5}},
		Outbound: []OutboundState{{Session: "a"}, {Session: "b"}, {Session: "b"}},
		Classes:  []mcp.ClassState{{Name: "heavy", Limit: 4, InUse: 3}},
		RateLimits: []RateLimitState{{
			Name: "calls", Used: 0.5, Allowed: 9, Refused: 1, Buckets: 2,
		}},
		TaskStatus: map[mcp.TaskStatus]int{mcp.TaskWorking: 2, mcp.TaskCompleted: 3},
		Auth:       auth.Stats{LimitsReached: map[string]uint64{"max_token_bytes": 5}},
		Counters:   Counters{LimitsReached: map[string]uint64{limits.NameSessions: 12, "class:heavy": 8}},
	})
	tel.Count(MetricLimitReached, limits.NameOutbound) // by the package that checks it
	page := tel.reportLimits([]LimitState{
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
	}, page.Limits)
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
