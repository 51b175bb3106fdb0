package service_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/server"
)

// /debug/limits has every limit, with what the program and the flags have set.
func TestLimitsPage(t *testing.T) {
	srv := server.New("test", "1")
	require.NoError(t, srv.SetLimits(server.Limits{MaxDepth: 9}))
	r := start(t, srv, "--max-sessions=5", "--hook-grace=1500ms")
	for range 2 { // too long for max_profile_time
		status, _ := r.get(t, "/debug/pprof/profile?seconds=100000")
		require.Equal(t, http.StatusBadRequest, status)
	}
	page := limitsPage(t, r)
	byName := map[string]report.Limit{}
	for i, b := range limits.All() {
		require.Equal(t, b.Name, page.Limits[i].Limit, "the order of docs/limits.md")
		require.Equal(t, b.Counted, page.Limits[i].Reached != nil, b.Name)
		byName[b.Name] = page.Limits[i]
	}
	require.Equal(t, report.Limit{
		Limit: "max_sessions", Value: 5, Default: 10_000, From: "set", Unit: "sessions", Used: new(int), Largest: new(int), Reached: new(uint64),
		Flag: "--max-sessions", Env: "VITRINE_MAX_SESSIONS", About: "legacy HTTP sessions",
	}, byName["max_sessions"])
	grace := byName["hook_grace"]
	require.EqualValues(t, 1.5, grace.Value)
	require.EqualValues(t, 5, grace.Default)
	require.Equal(t, "set", grace.From)
	require.Equal(t, "seconds", grace.Unit)
	require.EqualValues(t, 9, byName["max_depth"].Value)
	require.Equal(t, "set", byName["max_depth"].From)
	require.Equal(t, "default", byName["max_queue"].From)
	require.EqualValues(t, 2, *byName["max_profile_time"].Reached)
	require.NotNil(t, byName["max_connections"].Used)
}

// What follows from max_memory says so.
func TestLimitsThatFollowFromMemory(t *testing.T) {
	r := start(t, server.New("test", "1"), "--max-memory=600000000")
	page := limitsPage(t, r)
	from := map[string]string{}
	for _, l := range page.Limits {
		from[l.Limit] = l.From
	}
	require.Equal(t, "set", from["max_memory"])
	require.Equal(t, "max_memory", from["max_event_bytes_total"])
	require.Equal(t, "default", from["request_timeout"])
}

func limitsPage(t *testing.T, r *running) (page report.Limits) {
	t.Helper()
	status, body := r.get(t, "/debug/limits")
	require.Equal(t, http.StatusOK, status)
	require.NoError(t, json.Unmarshal([]byte(body), &page))
	return page
}
