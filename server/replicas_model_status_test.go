package server_test

import (
	"fmt"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// This file has what the oracle expects of the states of tasks that their clients read.

var errTasksAway = mcp.NewError(mcp.CodeInternalError, "the store that has the tasks is away: try again")

// A taskAnswer is the answer to a request about a task.
type taskAnswer struct {
	text   string
	Result taskState
	Error  *taskError
}

// A taskState is the result of tasks/get, and of the call.
type taskState struct {
	ResultType, TaskID string
	Status             mcp.TaskStatus
	StatusMessage      string
	InputRequests      map[string]jsontext.Value
	Result             struct{ Content []struct{ Text string } }
	Error              *taskError
}

type taskError struct {
	Code    mcp.Code
	Message string
	Data    struct{ Reason, Limit string }
}

func (a taskAnswer) String() string { return a.text }

// is reports whether the request has failed with an error.
func (a taskAnswer) is(err *mcp.Error) bool {
	return a.Error != nil && a.Error.Code == err.Code && a.Error.Message == err.Message
}

// keys returns those of the open questions, in order.
func (s taskState) keys() []string { return slices.Sorted(maps.Keys(s.InputRequests)) }

// taskRequest sends a request of a client, by its token, and waits for the answer.
func (w *modelWorld) taskRequest(r *modelReplica, token, method, name, params string) (a taskAnswer) {
	w.t.Helper()
	const mayAll = `"elicitation":{},` + withTasks
	in := legacyRequest(withCaps(1, method, mayAll, params), "Mcp-Protocol-Version: 2026-07-28")
	in.Header.Set("Mcp-Method", method)
	in.Header.Set("Mcp-Name", name)
	if token != "" {
		in.Header.Set("Authorization", token)
	}
	out := httptest.NewRecorder()
	r.srv.Handler().ServeHTTP(out, in)
	a.text = out.Body.String()
	w.note("  %s", a)
	require.NoError(w.t, json.Unmarshal(out.Body.Bytes(), &a, json.MatchCaseInsensitiveNames(true)), a.text)
	return a
}

// away checks whether a replica has the store, and reports whether the request was refused because it has not. fault is what was
// wrong when it was sent.
func (w *modelWorld) away(r *modelReplica, fault modelFault, a taskAnswer) bool {
	w.t.Helper()
	away := a.is(errTasksAway)
	require.False(w.t, away && r.well(), "%s has the store: %s", r.name, a)
	require.False(w.t, !away && fault != noFault, "%s does not have the store: %s", r.name, a)
	return away
}

// mayHaveClaimed reports whether a replica may have taken a task over since a time, and not know it: the store has not said so.
func (w *modelWorld) mayHaveClaimed(since time.Time) bool {
	return slices.ContainsFunc(w.replicas, func(r *modelReplica) bool {
		return slices.ContainsFunc(r.outages, func(o modelOutage) bool { return o.fault == unanswered && o.lasts(since) })
	})
}

// look reads the task at a replica, and checks what its client gets.
func (k *modelTask) look(r *modelReplica) (state taskState, ok bool) {
	w := k.world
	w.t.Helper()
	w.note("the client of %s reads it at %s", k.key, r.name)
	fault, _ := r.port.state()
	a := w.taskRequest(r, k.token, "tasks/get", k.id, k.params(""))
	if w.away(r, fault, a) || k.unknown(a) {
		return state, false
	}
	require.Nil(w.t, a.Error, a)
	k.mu.Lock()
	defer k.mu.Unlock()
	state = a.Result
	require.Equal(w.t, k.id, state.TaskID)
	if state.Status.Terminal() {
		k.checkEnd(a)
		return state, true
	}
	require.Empty(w.t, k.final, "%s has ended, and goes on: %s", k.key, a)
	k.checkOpen(r, state)
	k.open = time.Now()
	k.looks = append(k.looks, modelLook{r, time.Now()})
	return state, true
}

// checkEnd checks the end of a task. The caller must hold k.mu.
func (k *modelTask) checkEnd(a taskAnswer) {
	w, state, last := k.world, a.Result, k.runs[len(k.runs)-1]
	if k.final != "" {
		require.Equal(w.t, k.final, a.text, "%s has two ends", k.key)
		return
	}
	k.final, k.ended = a.text, time.Now()
	w.counts["ends of tasks: "+string(state.Status)]++
	require.Empty(w.t, state.InputRequests, a)
	switch state.Status {
	case mcp.TaskCompleted:
		require.Len(w.t, state.Result.Content, 1, a)
		require.Equal(w.t, last.result(), state.Result.Content[0].Text, "%s has the result of another run", k.key)
		require.True(w.t, last.finished, "%s has a result, and goes on", last)
	case mcp.TaskCancelled:
		require.NotEmpty(w.t, k.cancels, "nobody has cancelled %s", k.key)
	default:
		require.Equal(w.t, mcp.TaskFailed, state.Status, a)
		require.NotNil(w.t, state.Error, a)
		if state.Error.Data.Reason == string(mcp.CauseServerShutdown) {
			// "It begins at most max_task_runs times (3), also if it was handed over. Then the task fails with … server_shutdown."
			require.False(w.t, last.at.down.IsZero(), "%s has not shut down: %s", last.at.name, a)
			require.True(w.t, k.tool != restartableJobTool || len(k.runs) == maxRuns || w.mayHaveClaimed(k.created), "%s may begin again: %s", k.key, a)
			w.counts["tasks that a shutdown has ended"]++
			return
		}
		require.Equal(w.t, string(mcp.CauseReplicaLost), state.Error.Data.Reason, a)
		require.True(w.t, last.at.lost(k.open, k.ended, w.replicas...) || w.mayHaveClaimed(k.created), "%s is not lost: %s", last.at.name, a)
		if k.tool == restartableJobTool {
			// "It begins at most max_task_runs times (3)… Then the task fails with replica_lost"
			require.True(w.t, len(k.runs) == maxRuns || w.mayHaveClaimed(k.created), "%s may begin again: %s", k.key, a)
			require.Equal(w.t, "max_task_runs", state.Error.Data.Limit, a)
		}
		w.counts["tasks of lost replicas"]++
	}
}

// checkOpen checks the state of a task that goes on. The caller must hold k.mu.
func (k *modelTask) checkOpen(r *modelReplica, state taskState) {
	w, last := k.world, k.runs[len(k.runs)-1]
	hidden := w.mayHaveClaimed(k.created)
	for _, c := range k.cancels {
		require.False(w.t, c.sure, "%s was cancelled at %s, and goes on", k.key, c.at.name)
	}
	if last.at.well() && !hidden {
		require.False(w.t, last.ended, "%s has ended, and %s goes on", last, k.key)
		require.NoError(w.t, last.stopped(), "%s was told to end, and %s goes on", last, k.key)
	}
	k.checkLost(last)
	require.Equal(w.t, len(state.InputRequests) > 0, state.Status == mcp.TaskInputRequired, state)
	k.checkQuestions(state, last)
	k.checkMessage(state, last)
}

// checkLost checks that nobody need have found the replica of a run lost. The caller must hold k.mu.
func (k *modelTask) checkLost(last *modelRun) {
	gone, lost := last.at.goneSince()
	if !lost {
		return
	}
	for _, l := range k.looks {
		busy := slices.ContainsFunc(k.runs, func(run *modelRun) bool { // an earlier handler
			return run.at == l.at && (!run.ended || run.returned.After(l.when))
		})
		asks := l.at.settled(l.when) && !l.at.cut && l.when.Sub(l.at.healed) > recovery // and has missed no signals
		must := asks && l.when.Sub(gone) > 20*time.Second && time.Since(l.when) > 16*time.Second && l.when.After(last.began)
		require.False(k.world.t, must && !busy && !k.world.mayHaveClaimed(k.created),
			"%s is lost since %s, which %s was asked for at %s", last.at.name, gone.Format(time.TimeOnly), l.at.name, l.when.Format(time.TimeOnly))
	}
}

// checkQuestions checks the open questions of a task. The caller must hold k.mu.
func (k *modelTask) checkQuestions(state taskState, last *modelRun) {
	w := k.world
	void := w.mayHaveClaimed(k.created) // by a run that has not begun
	for _, key := range state.keys() {
		ask := last.asking != "" && k.isQuestion(last, last.asking, key)
		if !last.at.down.IsZero() { // nobody waits for the answer
			var index, of int
			_, _ = fmt.Sscanf(key, "q%d-run%d", &index, &of)
			ask = ask || index > 0 && index <= last.asked && k.isQuestion(last, fmt.Sprintf("q%d", index), key)
		}
		for _, u := range last.unasked { // the store may have it, and has not said so
			ask = ask || !last.at.settled(u.from) && k.isQuestion(last, u.question, key)
		}
		require.True(w.t, ask, "%s does not ask %s", last, key)
		require.True(w.t, k.keys[key] == 0 || k.keys[key] == last.number, "%s has asked %s, too", k.key, key)
		k.keys[key] = last.number
	}
	if last.asking == "" || last.stopped() != nil || void {
		return
	}
	for _, sent := range k.sent {
		if k.isQuestion(last, last.asking, sent.key) && !(sent.at.well() && last.at.well()) {
			return
		}
	}
	if last.at.settled(last.since) {
		there := slices.ContainsFunc(state.keys(), func(key string) bool { return k.isQuestion(last, last.asking, key) })
		require.True(w.t, there, "the client of %s has no question %s", k.key, last.asking)
	}
}

// hasMalformed reports whether the client has sent a malformed answer. The message that says so replaces that of the handler, and goes
// when the answer is valid. The caller must hold k.mu.
func (k *modelTask) hasMalformed() bool {
	for _, sent := range k.sent {
		if sent.malformed {
			return true
		}
	}
	return false
}

// checkMessage checks the message of a task that goes on. The caller must hold k.mu.
func (k *modelTask) checkMessage(state taskState, last *modelRun) {
	w := k.world
	if strings.Contains(state.StatusMessage, "is not valid") || state.StatusMessage == "" && k.hasMalformed() {
		return
	}
	if n := len(last.said); n > 0 && time.Since(last.said[n-1].at) > time.Second && last.at.settled(last.said[n-1].at) {
		require.Equal(w.t, last.said[n-1].text, state.StatusMessage, "%s has said something else", last)
	}
	if state.StatusMessage == "begun" {
		return
	}
	for i, run := range k.runs {
		at := slices.IndexFunc(run.said, func(s modelSaying) bool { return s.text == state.StatusMessage })
		if at < 0 {
			continue
		}
		// "What the earlier run still makes of the task is refused: messages, questions, and the result"
		require.False(w.t, run != last && run.said[at].at.After(k.runs[i+1].began), "%s says %q, and another run has begun", run, state.StatusMessage)
		return
	}
	require.Fail(w.t, fmt.Sprintf("no handler of %s says %q", k.key, state.StatusMessage))
}

// check checks a task when nothing is under way.
func (k *modelTask) check() {
	w := k.world
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, run := range k.runs {
		run.check()
		if i == 0 {
			continue
		}
		before := k.runs[i-1]
		require.Equal(w.t, restartableJobTool, k.tool, "%s runs twice", k.key)
		require.LessOrEqual(w.t, i, maxRuns-1, "%s begins too often", k.key)
		require.True(w.t, k.final == "" || !run.began.After(k.ended), "%s begins after the end of its task", run)
		hidden := w.mayHaveClaimed(k.created)
		require.True(w.t, before.at.foundLost(run.at, run.began) || hidden || before.handedOver(), "%s begins, and %s is not lost", run, before.at.name)
		require.True(w.t, before.at != run.at || before.ended, "%s begins before the earlier one at %s has ended", run, run.at.name)
	}
}

// endTasks has handlers end whose tasks others run, and asks for all tasks, so that those of lost replicas are looked for.
func (w *modelWorld) endTasks() {
	for _, k := range w.tasks {
		for _, run := range k.allRuns() {
			if run.idle() && run.ctx.Err() != nil { // a stubborn one
				run.order("finish")
			}
		}
	}
	w.rest()
	for _, k := range w.tasks {
		k.look(w.anyReplica())
	}
}

// finishTasks finishes the handlers that run, when all replicas have long had the store, and lost ones were asked for.
func (w *modelWorld) finishTasks() {
	for _, k := range w.tasks {
		state, ok := k.look(w.anyReplica())
		last := k.lastRun()
		if ok && !state.Status.Terminal() {
			require.False(w.t, last.at.killed || last.ended, "nobody runs %s", k.key)
			for _, key := range state.keys() {
				k.answer(w.anyReplica(), key, false)
			}
			w.rest()
		}
		if last.idle() {
			last.order("finish")
		}
	}
}

// verifyTasks checks what the tasks have come to.
func (w *modelWorld) verifyTasks() {
	for _, k := range w.tasks {
		state, ok := k.look(w.anyReplica())
		require.NotEqual(w.t, k.lost(), ok, k.key)
		require.True(w.t, !ok || state.Status.Terminal(), "%s does not end", k.key)
		w.counts[fmt.Sprintf("tasks with %d runs", len(k.allRuns()))]++
	}
}
