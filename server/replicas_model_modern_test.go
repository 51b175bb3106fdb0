package server_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// This file has the calls of modern clients. They have no session, so that they run where they arrive and need
// nothing of other replicas. Whatever goes wrong with the store, or with legacy sessions, does not concern them.

// A modernCall is one call of the tool work by a modern client.
type modernCall struct {
	*modelHandler
	world *modelWorld
	id    int
	began time.Time
	conn  *modelConn
	left  bool // its client has broken the connection, which cancels it

	client struct {
		mu     sync.Mutex // guards the rest
		read   int        // progress reports
		answer string
	}
}

// modernRequest is a call of a tool by a modern client.
func modernRequest(body, tool string) *http.Request {
	r := legacyRequest(body, "Mcp-Protocol-Version: 2026-07-28")
	r.Header.Set("Mcp-Method", "tools/call")
	r.Header.Set("Mcp-Name", tool)
	return r
}

// modernID returns an id that a legacy call may have, too. They have nothing to do with each other.
func (w *modelWorld) modernID() int {
	if c := w.some((*modelCall).running); c != nil {
		return c.id
	}
	return 1 + w.random.IntN(100)
}

// modernPlainCall makes a call at any replica, whether or not that has the store. It needs no operation of the store.
func (w *modelWorld) modernPlainCall() bool {
	w.rest()
	r, id := w.anyReplica(), w.modernID()
	w.note("modern plain call %d at %s", id, r.name)
	operations, began := r.port.operations.Load(), time.Now()
	text := fmt.Sprintf("%d/%d", id, w.random.IntN(1000))
	out := httptest.NewRecorder()
	r.srv.Handler().ServeHTTP(out, modernRequest(modern(id, "tools/call", call("echo", fmt.Sprintf(`{"text":%q}`, text))), "echo"))
	require.Equal(w.t, http.StatusOK, out.Code)
	require.Contains(w.t, out.Body.String(), fmt.Sprintf("%q", text))
	require.Zero(w.t, time.Since(began), "a modern call waits")
	require.Equal(w.t, operations, r.port.operations.Load(), "a modern call asks the store")
	return true
}

func (w *modelWorld) beginModernCall() bool {
	if len(w.openModern()) > 3 {
		return false
	}
	r, id := w.anyReplica(), w.modernID()
	m := &modernCall{world: w, id: id, began: time.Now(), modelHandler: w.newHandler(fmt.Sprintf("m%d", len(w.modern)+1), r)}
	w.modern = append(w.modern, m)
	w.note("modern call %s with id %d at %s", m.key, id, r.name)
	arguments := call("work", fmt.Sprintf(`{"key":%q}`, m.key))
	m.conn = r.exchange(modernRequest(modern(id, "tools/call", arguments, `"progressToken":`+fmt.Sprintf("%q", m.key)), "work"), m.take)
	return true
}

// openModern returns the modern calls that run, for all that their clients know.
func (w *modelWorld) openModern() (all []*modernCall) {
	for _, m := range w.modern {
		if _, answer := m.state(); answer == "" && !m.left && !m.home.killed {
			all = append(all, m)
		}
	}
	return all
}

// idleModern returns one of the modern calls whose handlers wait for an order, or nil.
func (w *modelWorld) idleModern() *modernCall {
	all := slices.DeleteFunc(w.openModern(), func(m *modernCall) bool { return !m.idle() })
	if len(all) == 0 {
		return nil
	}
	return pick(w, all)
}

func (w *modelWorld) modernSay() bool {
	m := w.idleModern()
	if m != nil {
		w.note("%s says", m.key)
		m.order("say")
	}
	return m != nil
}

func (w *modelWorld) finishModernCall() bool {
	m := w.idleModern()
	if m != nil {
		w.note("%s finishes", m.key)
		m.order("finish")
	}
	return m != nil
}

// leaveModernCall breaks the connection of a modern call, which cancels it.
func (w *modelWorld) leaveModernCall() bool {
	m := w.idleModern()
	if m != nil {
		w.note("%s hangs up", m.key)
		m.left = true
		m.conn.leave()
	}
	return m != nil
}

// take reads one event of the stream, or the answer.
func (m *modernCall) take(_, data string) {
	if data == "" {
		return
	}
	m.client.mu.Lock()
	defer m.client.mu.Unlock()
	m.world.note("  %s reads %s", m.key, data)
	var frame struct {
		ID     any
		Method string
		Params struct{ Progress int }
	}
	err := json.Unmarshal([]byte(data), &frame, json.MatchCaseInsensitiveNames(true))
	switch {
	case err != nil, m.client.answer != "":
		m.world.wrong("%s reads %s after %q: %v", m.key, data, m.client.answer, err)
	case frame.Method == "notifications/progress" && frame.Params.Progress == m.client.read+1:
		m.client.read++
	case frame.ID == float64(m.id) && strings.Contains(data, `"done `+m.key+`"`):
		m.client.answer = "result"
	default:
		m.world.wrong("%s reads %s", m.key, data)
	}
}

// state returns what the client has read.
func (m *modernCall) state() (read int, answer string) {
	m.client.mu.Lock()
	defer m.client.mu.Unlock()
	return m.client.read, m.client.answer
}

// check checks a modern call when nothing is under way: its client has read all that its handler has said, and only
// its client ends it.
func (m *modernCall) check() {
	t := m.world.t
	read, answer := m.state()
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.left && !m.home.killed:
		// "If the client goes in the first 5 ms of its request, the server notices at the end of the 5 ms" (docs/session-core.md).
		require.True(t, m.ended || time.Since(m.began) <= 5*time.Millisecond, "%s runs, and its client has left", m.key)
		require.True(t, m.cause == nil || errors.Is(m.cause, mcp.ErrClientDisconnected), "%s ends: %v", m.key, m.cause)
	case !m.left && !m.home.killed:
		require.Equal(t, 1, m.runs, m.key)
		require.NoError(t, m.cause, "%s", m.key)
		require.Equal(t, m.said, read, "%s has not read what its handler has said", m.key)
		require.Equal(t, m.ended, answer == "result", "%s has not its answer", m.key)
	}
	require.LessOrEqual(t, m.runs, 1, "%s runs twice", m.key)
}
