package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// This file has the log level of a session, which its client sets at any replica, and which holds at all.

// addLog adds a tool that logs one message of each level.
func addLog(srv *server.Server) {
	server.AddTool(srv, server.Tool{Name: "log"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
		for _, level := range mcp.LoggingLevels() {
			if err := call.Log(level, "x"); err != nil {
				return "", err
			}
		}
		return "logged", nil
	})
}

func (w *modelWorld) setLevel() bool {
	w.rest()
	r, s, level := w.anyReplica(), pick(w, w.sessions), pick(w, mcp.LoggingLevels())
	s.lastID++
	w.note("%s sets the log level %s at %s", s.name, level, r.name)
	status, _, _ := w.message(r, s, http.MethodPost, legacy(s.lastID, "logging/setLevel", fmt.Sprintf(`"level":%q`, level)))
	if !w.served(r, s, status, http.StatusOK) {
		return true
	}
	s.level.set(r, level)
	return true
}

// useLevel calls a tool that logs at any replica. The client gets the messages of its level and above.
func (w *modelWorld) useLevel() bool {
	w.rest()
	r, s := w.anyReplica(), pick(w, w.sessions)
	s.lastID++
	w.note("log call %d of %s at %s", s.lastID, s.name, r.name)
	status, text, _ := w.message(r, s, http.MethodPost, legacy(s.lastID, "tools/call", call("log", "{}")))
	if !w.served(r, s, status, http.StatusOK) {
		return true
	}
	require.Contains(w.t, text, "logged")
	var got []mcp.LoggingLevel
	for _, level := range mcp.LoggingLevels() {
		if n := strings.Count(text, fmt.Sprintf(`"level":%q`, level)); n > 0 {
			require.Equal(w.t, 1, n, "%s is told of one message %d times", s.name, n)
			got = append(got, level)
		}
	}
	require.NotEmpty(w.t, got, "no level hides an emergency")
	require.Equal(w.t, mcp.LoggingLevels()[got[0].Severity():], got)
	if len(s.deletions) == 0 {
		w.checkLevel(r, s, got[0])
	}
	return true
}

// checkLevel checks the level at a replica: the last one that its client has set.
func (w *modelWorld) checkLevel(r *modelReplica, s *modelSession, got mcp.LoggingLevel) {
	w.t.Helper()
	require.Contains(w.t, s.level.at(r), got, "%s at %s", s.name, r.name)
	if r.well() {
		s.level.sees(w, got)
	}
}

// checkLevels checks that all replicas agree on the level of each session.
func (w *modelWorld) checkLevels() {
	for _, s := range w.sessions {
		for _, r := range w.alive() {
			s.lastID++
			status, text, _ := w.message(r, s, http.MethodPost, legacy(s.lastID, "tools/call", call("log", "{}")))
			if w.served(r, s, status, http.StatusOK) && len(s.deletions) == 0 {
				_, after, _ := strings.Cut(text, `"level":"`)
				level, _, _ := strings.Cut(after, `"`)
				w.checkLevel(r, s, mcp.LoggingLevel(level))
			}
		}
	}
}
