package server_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// This file has the log level of a session, which its client sets at any replica, and which holds at all.

// A modelLevel is what the oracle knows of the log level of a session.
type modelLevel struct {
	now mcp.LoggingLevel
	// late are the levels that a replica without the store was told. It tells the others when it has the store again
	// (docs/replicas.md: "hold at all replicas, unless the process has ended meanwhile"), and the page does not
	// say whether such a level replaces one that was set elsewhere meanwhile.
	late []lateLevel
	// told are all levels that were set, and the one without which the client begins.
	told []mcp.LoggingLevel
	last *modelReplica // where it was set last
}

// A lateLevel is one that a replica was told which did not have the store.
type lateLevel struct {
	level mcp.LoggingLevel
	at    *modelReplica
}

func newModelLevel() modelLevel {
	return modelLevel{now: mcp.LogInfo, told: []mcp.LoggingLevel{mcp.LogInfo}}
}

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
	l := &s.level
	l.last, l.told = r, append(l.told, level)
	if r.well() {
		l.now = level // it follows all that the store has
		l.late = slices.DeleteFunc(l.late, func(late lateLevel) bool { return late.at.killed })
	} else {
		l.late = append(l.late, lateLevel{level, r})
	}
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
	l := &s.level
	may, others := []mcp.LoggingLevel{l.now}, false
	for _, late := range l.late {
		may, others = append(may, late.level), others || late.at != r
	}
	switch {
	case !r.well() && l.last == r && !others:
		require.Equal(w.t, l.told[len(l.told)-1], got, "%s at %s, where it was set last", s.name, r.name)
	case !r.well():
		// "log level and subscriptions hold there" while the store is away: it may not have heard of the last ones.
		require.Contains(w.t, l.told, got, "%s at %s", s.name, r.name)
	default:
		require.Contains(w.t, may, got, "%s at %s", s.name, r.name)
		// The store may have the level of a replica that was killed before it could tell the others. Then those have it
		// which ask the store later ("unless the process has ended meanwhile").
		lost := slices.ContainsFunc(l.late, func(late lateLevel) bool { return late.at.killed })
		if !lost && w.allWell() { // all have told what they could not tell
			l.now, l.late = got, nil
		}
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
