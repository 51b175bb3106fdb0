package server_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// This file has the commands of clients and handlers, and what the oracle expects of them.

// rest lets all that is under way happen, and checks what must be true then.
func (w *modelWorld) rest() {
	w.t.Helper()
	synctest.Wait()
	for _, s := range w.sessions {
		s.told = s.told || !s.forgotten && slices.ContainsFunc(s.deletions, (*modelReplica).well)
	}
	for _, c := range w.calls {
		c.check()
	}
	for _, m := range w.modern {
		m.check()
	}
	for _, k := range w.tasks {
		k.check()
	}
	for _, s := range w.sessions {
		w.checkOwn(s)
	}
	checks := w.checks
	w.checks = nil
	for _, check := range checks {
		check()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	require.Empty(w.t, w.broken)
}

// check checks one call.
func (c *modelCall) check() {
	t := c.world.t
	if c.conn != nil {
		if _, ended := c.conn.over(); ended {
			c.conn = nil
		}
	}
	lastEvent, read, answer := c.client.state()
	c.mu.Lock()
	defer c.mu.Unlock()
	require.LessOrEqual(t, c.runs, 1, "%s runs twice", c.key)
	c.session.known[c.home] = c.session.known[c.home] || c.runs > 0
	require.LessOrEqual(t, read, c.said, "%s", c.key)
	for _, heard := range c.heard {
		require.True(t, c.sent[heard], "the handler of %s has heard %s, which its client has not said", c.key, heard)
	}
	require.False(t, c.sound && lastEvent != "" && c.unasked != nil, "%s is told of its question: %v", c.key, c.unasked)
	switch {
	case answer == "result":
		require.True(t, c.ended && c.cause == nil && read == c.said, "%s has its result after %d of %d reports", c.key, read, c.said)
	case answer == string(mcp.CauseReplicaLost):
		require.False(t, c.sound && !c.home.killed, "%s: its replica is not lost", c.key)
	}
	switch cause := c.cause; {
	case cause == nil, c.home.killed:
	case errors.Is(cause, mcp.ErrClientCancelled):
		require.True(t, c.cancelled, "%s was not cancelled by its client", c.key)
	case errors.Is(cause, mcp.ErrSessionDeleted):
		require.NotEmpty(t, c.session.deletions, "the session of %s was not deleted", c.key)
	default:
		require.NoError(t, cause, "%s", c.key)
	}
	if c.session.told && c.home.well() {
		require.True(t, c.runs == 0 || c.ended, "%s runs although its session was deleted", c.key)
	}
}

// statusOf checks the status of a message, and reports whether the session was served. A session that was not
// deleted is served by each replica. One that was deleted is served by none that could hear of it.
func (w *modelWorld) served(r *modelReplica, s *modelSession, status int, ok ...int) bool {
	w.t.Helper()
	gone := status == http.StatusNotFound
	switch {
	case len(s.deletions) == 0:
		require.Contains(w.t, ok, status, "%s at %s", s.name, r.name)
	case slices.Contains(s.deletions, r), s.told && r.well():
		require.True(w.t, gone, "%s was deleted, and %s answers %d", s.name, r.name, status)
	case !gone:
		require.Contains(w.t, ok, status, "%s at %s", s.name, r.name)
	}
	return !gone
}

func (w *modelWorld) openSession() bool {
	if len(w.sessions) > 5 {
		return false
	}
	r := w.anyReplica()
	a := post(r.srv, legacy(1, "initialize", `"protocolVersion":"2025-11-25","capabilities":{"roots":{},"extensions":{"`+thing+`":{}}},"clientInfo":{"name":"c","version":"1"}`))
	require.Equal(w.t, http.StatusOK, a.Code)
	s := &modelSession{name: fmt.Sprintf("s%d", len(w.sessions)+1), header: "Mcp-Session-Id: " + a.Header().Get("Mcp-Session-Id"),
		lastID: 100, known: map[*modelReplica]bool{r: true}, level: newSetting(mcp.LogInfo)}
	s.listener = w.newListener(s.name)
	w.sessions = append(w.sessions, s)
	at := w.anyReplica()
	w.note("open %s at %s, ready at %s", s.name, r.name, at.name)
	status, _, _ := w.message(at, s, http.MethodPost, notice("notifications/initialized", ""))
	require.Equal(w.t, http.StatusAccepted, status)
	return true
}

// plainCall makes a call that needs no store, at any replica, whether or not that has the store.
func (w *modelWorld) plainCall() bool {
	r, s := w.anyReplica(), pick(w, w.sessions)
	known := s.known[r]
	s.lastID++
	w.note("plain call %d of %s at %s", s.lastID, s.name, r.name)
	status, text, took := w.message(r, s, http.MethodPost, legacy(s.lastID, "tools/call", fmt.Sprintf(`"name":"echo","arguments":{"text":"%s/%d"}`, s.name, s.lastID)))
	if w.served(r, s, status, http.StatusOK) {
		require.Contains(w.t, text, fmt.Sprintf(`"%s/%d"`, s.name, s.lastID))
		require.LessOrEqual(w.t, took, time.Second)
		require.False(w.t, known && took > 0, "the call waits %s for the store", took)
	}
	return true
}

func (w *modelWorld) beginCall() bool {
	if w.count((*modelCall).running) > 8 {
		return false
	}
	r, s := w.anyReplica(), pick(w, w.sessions)
	s.lastID++
	c := &modelCall{world: w, session: s, id: s.lastID, modelHandler: w.newHandler(fmt.Sprintf("%s/%d", s.name, s.lastID), r),
		sound: r.well() && len(s.deletions) == 0, sent: map[string]bool{}}
	if fault, _ := r.port.state(); fault == unanswered {
		c.client.mayRepeat()
	}
	w.calls = append(w.calls, c)
	w.note("call %s at %s", c.key, r.name)
	c.conn = c.exchange(r, legacy(c.id, "tools/call", fmt.Sprintf(`"name":"work","arguments":{"key":%q},"_meta":{"progressToken":%q}`, c.key, c.key)), "")
	conn := c.conn
	w.checks = append(w.checks, func() {
		if len(s.deletions) == 0 && !r.killed && !r.cut {
			status, _ := conn.over()
			require.True(w.t, c.runs == 1 || c.client.answered() != "" || conn.gone, "%s does not run: %d", c.key, status)
		}
	})
	return true
}

// some returns one of the calls for which a condition holds, or nil.
func (w *modelWorld) some(is func(*modelCall) bool) *modelCall {
	var all []*modelCall
	for _, c := range w.calls {
		if is(c) {
			all = append(all, c)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return pick(w, all)
}

func (w *modelWorld) count(is func(*modelCall) bool) (n int) {
	for _, c := range w.calls {
		if is(c) {
			n++
		}
	}
	return n
}

func (w *modelWorld) say() bool {
	c := w.some((*modelCall).idle)
	if c != nil {
		w.note("%s says", c.key)
		c.order("say")
	}
	return c != nil
}

func (w *modelWorld) ask() bool {
	c := w.some((*modelCall).idle)
	if c != nil {
		w.note("%s asks", c.key)
		c.mu.Lock()
		c.asking = true
		c.asked++
		c.mu.Unlock()
		c.order("ask")
	}
	return c != nil
}

func (w *modelWorld) finishCall() bool {
	c := w.some((*modelCall).idle)
	if c != nil {
		w.note("%s finishes", c.key)
		c.order("finish")
	}
	return c != nil
}

// answer answers a question that the client has got, at any replica, perhaps again.
func (w *modelWorld) answer() bool {
	w.rest()
	c := w.some(func(c *modelCall) bool { return c.client.anyQuestion(w) != "" && !c.home.killed })
	if c == nil {
		return false
	}
	r, id := w.anyReplica(), c.client.anyQuestion(w)
	frame, heard := rootsAnswer(id, fmt.Sprintf("file:///%s/%d", c.key, w.random.IntN(1000)))
	c.mu.Lock()
	c.sent[heard] = true
	asked := c.asked
	open := c.asking && c.client.questions[len(c.client.questions)-1] == id && len(c.client.questions) == c.asked
	c.mu.Unlock()
	w.note("the client of %s answers %s at %s", c.key, id, r.name)
	status, _, _ := w.message(r, c.session, http.MethodPost, frame)
	if w.served(r, c.session, status, http.StatusAccepted) && open && w.reaches(r, c.home) {
		w.checks = append(w.checks, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			require.True(w.t, !c.asking || c.asked > asked || c.ended || len(c.session.deletions) > 0, "%s has not heard the answer", c.key)
		})
	}
	return true
}

// reaches reports whether what arrives at one replica must reach another one.
func (w *modelWorld) reaches(from, to *modelReplica) bool {
	return !to.killed && (from == to || from.well() && to.well())
}

// answerOfOthers answers a question of another session, which must have no effect.
func (w *modelWorld) answerOfOthers() bool {
	w.rest()
	c := w.some(func(c *modelCall) bool { return c.client.anyQuestion(w) != "" && c.asking })
	s := pick(w, w.sessions)
	if c == nil || s == c.session {
		return false
	}
	r, id := w.anyReplica(), c.client.anyQuestion(w)
	w.note("the client of %s answers question %s of %s at %s", s.name, id, c.key, r.name)
	frame, _ := rootsAnswer(id, "file:///evil")
	status, _, _ := w.message(r, s, http.MethodPost, frame)
	w.served(r, s, status, http.StatusAccepted)
	return true
}

// cancel cancels a call, at any replica, perhaps when it has ended.
func (w *modelWorld) cancel() bool {
	w.rest()
	c := w.some(func(c *modelCall) bool { return c.client.answered() == "" && c.runs > 0 })
	if c == nil {
		return false
	}
	r := w.anyReplica()
	w.note("cancel %s at %s", c.key, r.name)
	c.cancelled = true
	status, _, _ := w.message(r, c.session, http.MethodPost, notice("notifications/cancelled", fmt.Sprintf(`{"requestId":%d}`, c.id)))
	if w.served(r, c.session, status, http.StatusAccepted) && w.reaches(r, c.home) {
		w.checks = append(w.checks, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			require.True(w.t, c.ended, "%s was cancelled, and runs", c.key)
		})
	}
	return true
}

// cancelOfOthers cancels the id of a call in another session, which must not end it. That session has no call with
// the id afterwards, because a cancel that overtakes its request may end it.
func (w *modelWorld) cancelOfOthers() bool {
	c, s := w.some((*modelCall).running), pick(w, w.sessions)
	if c == nil || slices.ContainsFunc(w.calls, func(other *modelCall) bool { return other.session == s && other.id == c.id }) {
		return false
	}
	r := w.anyReplica()
	w.note("cancel %d, which is %s, in %s at %s", c.id, c.key, s.name, r.name)
	s.lastID = max(s.lastID, c.id)
	status, _, _ := w.message(r, s, http.MethodPost, notice("notifications/cancelled", fmt.Sprintf(`{"requestId":%d}`, c.id)))
	w.served(r, s, status, http.StatusAccepted)
	return true
}

func (w *modelWorld) hangUp() bool {
	c := w.some(func(c *modelCall) bool { return c.conn != nil && c.client.answered() == "" })
	if c != nil {
		w.note("%s hangs up", c.key)
		c.hangUp()
	}
	return c != nil
}

// resumable reports whether a client can try to go on reading.
func (c *modelCall) resumable() bool {
	lastEvent, _, answer := c.client.state()
	return answer == "" && lastEvent != ""
}

// resume goes on reading at any replica, also while an earlier connection seems to be there.
func (w *modelWorld) resume() bool {
	w.rest()
	c := w.some((*modelCall).resumable)
	if c == nil {
		return false
	}
	w.resumeAt(c, w.anyReplica())
	return true
}

// resumeAt goes on reading a call at a replica.
func (w *modelWorld) resumeAt(c *modelCall, r *modelReplica) {
	w.t.Helper()
	if c.conn != nil {
		c.hangUp()
		synctest.Wait()
	}
	c.sound = c.sound && (r == c.home || r.well())
	lastEvent, _, _ := c.client.state()
	w.note("%s resumes at %s", c.key, r.name)
	conn := c.exchange(r, "", lastEvent)
	time.Sleep(3 * time.Second) // it may wait for the writer, and for the store
	synctest.Wait()
	c.conn = conn
	status, ended := conn.over()
	w.note("  status %d, ended %t", status, ended)
	if w.served(r, c.session, status, http.StatusOK, http.StatusBadRequest, http.StatusTooManyRequests, http.StatusConflict) && c.sound && r.well() {
		require.Equal(w.t, http.StatusOK, status, "%s cannot be resumed", c.key)
	}
}

// deleteSession ends a session at any replica.
func (w *modelWorld) deleteSession() bool {
	w.rest()
	r, s := w.anyReplica(), pick(w, w.sessions)
	if len(w.sessions) < 2 {
		return false
	}
	w.note("delete %s at %s", s.name, r.name)
	status, _, _ := w.message(r, s, http.MethodDelete, "")
	if status != http.StatusNotFound {
		require.Equal(w.t, http.StatusNoContent, status)
		s.deletions = append(s.deletions, r)
	}
	for _, c := range w.calls {
		if c.session == s {
			c.sound = false
		}
	}
	if s.own != nil {
		s.own.sound = false
	}
	return true
}

// finish heals everything, ends all handlers, and lets each client have the rest of its streams.
func (w *modelWorld) finish() {
	w.rest()
	w.note("the end: all replicas have the store")
	w.healAll()
	w.settle(recovery + time.Second)
	for _, c := range w.calls { // what has no answer ends
		if c.running() && !c.idle() {
			w.note("cancel %s at %s", c.key, c.home.name)
			c.cancelled = true
			w.message(c.home, c.session, http.MethodPost, notice("notifications/cancelled", fmt.Sprintf(`{"requestId":%d}`, c.id)))
		} else if c.idle() {
			c.order("finish")
		}
	}
	for _, m := range w.openModern() {
		m.order("finish")
	}
	w.endTasks()
	w.settle(recovery)
	w.finishTasks()
	for _, c := range w.calls {
		if c.resumable() && c.conn == nil && len(c.session.deletions) == 0 {
			w.resumeAt(c, w.anyReplica())
		}
	}
	for _, s := range w.sessions {
		if o := s.own; o != nil && o.conn == nil && o.sound && o.reading.last() != "" && len(s.deletions) == 0 {
			w.resumeOwnAt(s, w.anyReplica())
		}
	}
	w.settle(time.Minute)
	for _, c := range w.calls {
		if len(c.session.deletions) == 0 {
			w.verify(c)
		}
	}
	w.verifyTasks()
	w.checkLevels()
	for _, s := range w.sessions {
		for _, r := range w.alive() {
			status, _, _ := w.message(r, s, http.MethodPost, legacy(99, "ping", ""))
			w.served(r, s, status, http.StatusOK)
		}
	}
}

// settle lets time pass, and checks.
func (w *modelWorld) settle(d time.Duration) {
	time.Sleep(d)
	w.rest()
}

// verify checks what a call has come to: one run and one answer, or an end that docs/replicas.md names.
func (w *modelWorld) verify(c *modelCall) {
	w.t.Helper()
	lastEvent, _, answer := c.client.state()
	switch {
	case !c.brokenOff && !c.cancelled:
		require.NotEmpty(w.t, answer, "%s has lost its answer", c.key)
		w.counts["calls with an answer over their first connection"]++
	case c.home.killed && !c.sound, c.home.killed && lastEvent == "":
		w.counts["calls of killed replicas that no client could resume"]++
	case c.home.killed:
		require.NotEmpty(w.t, answer, "%s has neither its answer nor an error", c.key)
		w.counts["ends of calls of killed replicas: "+answer]++
	case c.sound && lastEvent != "":
		require.NotEmpty(w.t, answer, "%s has no answer", c.key)
		require.NotEqual(w.t, string(mcp.CauseReplicaLost), answer)
		w.counts["calls with an answer over another connection"]++
	case answer == "":
		w.counts["calls without an answer, whose client has left at once or after an outage"]++
	default:
		w.counts["calls with an answer after an outage"]++
	}
}
