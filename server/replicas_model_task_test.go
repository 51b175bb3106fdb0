package server_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// This file has the calls of modern clients that go on as tasks, and what their clients do about them at any replica.

// The tools of the model whose calls become tasks. The second one is restartable.
const (
	jobTool            = "job"
	restartableJobTool = "restartable-job"
)

// modelTokens are the clients of tasks. The last one has no principal.
var modelTokens = []string{annsToken, "i bob acme 0", ""}

// A modelTask is a call that goes on as a task.
type modelTask struct {
	world     *modelWorld
	key, tool string
	token     string // of its client
	stubborn  bool   // its handlers ignore the ends of their contexts
	id        string
	created   time.Time
	losses    int64 // of the store, until then

	cancels []modelCancel
	sent    map[string]*modelAnswer // by what they say
	looks   []modelLook             // since the last change of hands
	final   string                  // what its client has read of its end
	ended   time.Time               // when it has read that first
	open    time.Time               // when it has read last that the task goes on
	keys    map[string]int          // the questions that it has read, and their runs

	mu   sync.Mutex // guards runs, and what they have
	runs []*modelRun
}

// A modelCancel is a request of the client of a task that may have cancelled it.
type modelCancel struct {
	at     *modelReplica
	sure   bool // it was accepted
	losses int64
}

// A modelAnswer is an answer of the client of a task.
type modelAnswer struct {
	key       string // of the question
	at        *modelReplica
	sure      bool // it was accepted, and its question was open
	malformed bool
}

// A modelLook is a tasks/get of a replica.
type modelLook struct {
	at   *modelReplica
	when time.Time
}

// addTasks adds the tools whose calls become tasks to a replica.
func (w *modelWorld) addTasks(r *modelReplica) {
	for _, tool := range []server.Tool{{Name: jobTool}, {Name: restartableJobTool, Restartable: true}} {
		tool.Task = server.TaskRequired
		server.AddTool(r.srv, tool, func(ctx context.Context, call *server.Call, in struct {
			Key string `json:"key"`
		}) (string, error) {
			w.mu.Lock()
			k := w.jobs[in.Key]
			w.mu.Unlock()
			return k.run(ctx, call, r)
		})
	}
}

// lost reports whether the store has lost the task.
func (k *modelTask) lost() bool { return k.losses != k.world.losses.Load() }

func (k *modelTask) allRuns() []*modelRun {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.runs)
}

// lastRun returns the run that the task has, for all that is known.
func (k *modelTask) lastRun() *modelRun {
	all := k.allRuns()
	return all[len(all)-1]
}

// beginTask makes a call that becomes a task, at any replica.
func (w *modelWorld) beginTask() bool {
	w.rest()
	if len(w.openTasks()) > 4 {
		return false
	}
	r := w.anyReplica()
	k := &modelTask{
		world: w, key: fmt.Sprintf("t%d", len(w.jobs)+1), tool: pick(w, []string{jobTool, restartableJobTool, restartableJobTool}), token: pick(w, modelTokens),
		stubborn: w.random.IntN(3) == 0, created: time.Now(), losses: w.losses.Load(), sent: map[string]*modelAnswer{}, keys: map[string]int{},
	}
	w.mu.Lock()
	w.jobs[k.key] = k
	w.mu.Unlock()
	w.note("%s %s (stubborn %t) of %q begins at %s", k.tool, k.key, k.stubborn, k.token, r.name)
	fault, _ := r.port.state()
	a := w.taskRequest(r, k.token, "tools/call", k.tool, call(k.tool, fmt.Sprintf(`{"key":%q}`, k.key)))
	if w.away(r, fault, a) { // "Detach returns that error: the handler may go on without, or return it"
		require.Error(w.t, k.lastRun().refused)
		return true
	}
	require.Nil(w.t, a.Error, a)
	require.Equal(w.t, "task", a.Result.ResultType, a)
	require.Equal(w.t, mcp.TaskWorking, a.Result.Status, a)
	k.id, k.open = a.Result.TaskID, time.Now()
	w.tasks = append(w.tasks, k)
	return true
}

// openTasks returns the tasks that go on, for all that their clients know.
func (w *modelWorld) openTasks() (all []*modelTask) {
	for _, k := range w.tasks {
		if k.final == "" && !k.lost() {
			all = append(all, k)
		}
	}
	return all
}

// anyTask returns a task, mostly one that goes on, or nil.
func (w *modelWorld) anyTask() *modelTask {
	if open := w.openTasks(); len(open) > 0 && w.random.IntN(8) > 0 {
		return pick(w, open)
	}
	if len(w.tasks) == 0 {
		return nil
	}
	return pick(w, w.tasks)
}

// getTask reads a task at any replica.
func (w *modelWorld) getTask() bool {
	w.rest()
	k := w.anyTask()
	if k != nil {
		k.look(w.anyReplica())
	}
	return k != nil
}

// cancelTask cancels a task at any replica.
func (w *modelWorld) cancelTask() bool {
	k := w.anyTask()
	if k == nil {
		return false
	}
	r := w.anyReplica()
	fault, _ := r.port.state()
	w.note("the client of %s cancels it at %s", k.key, r.name)
	a := w.taskRequest(r, k.token, "tasks/cancel", k.id, k.params(""))
	if fault == noFault || fault == unanswered {
		k.cancels = append(k.cancels, modelCancel{at: r, sure: a.Error == nil, losses: w.losses.Load()})
	}
	k.acknowledged(r, fault, a)
	return true
}

// params are those of a request about the task.
func (k *modelTask) params(more string) string { return fmt.Sprintf(`"taskId":%q%s`, k.id, more) }

// acknowledged checks the answer to tasks/update or tasks/cancel.
func (k *modelTask) acknowledged(r *modelReplica, fault modelFault, a taskAnswer) (accepted bool) {
	k.world.t.Helper()
	if k.world.away(r, fault, a) || k.unknown(a) {
		return false
	}
	require.Nil(k.world.t, a.Error, a)
	require.Equal(k.world.t, "complete", a.Result.ResultType, a)
	return true
}

// unknown checks an answer of a store that is there, and reports whether there is no such task: "A store that loses its values
// loses the tasks".
func (k *modelTask) unknown(a taskAnswer) bool {
	k.world.t.Helper()
	unknown := a.is(errNoSuchTask)
	require.Equal(k.world.t, k.lost(), unknown, "%s: %s", k.key, a)
	return unknown
}

// answerTask answers a question of a task, which its client has just read, at any replica.
func (w *modelWorld) answerTask() bool {
	w.rest()
	open := slices.DeleteFunc(w.openTasks(), func(k *modelTask) bool { return k.lastRun().asking == "" })
	if len(open) == 0 {
		return false
	}
	k, r := pick(w, open), w.anyReplica()
	state, ok := k.look(w.anyReplica())
	if !ok || len(state.InputRequests) == 0 {
		return true
	}
	key := pick(w, state.keys())
	malformed := w.random.IntN(5) == 0
	k.answer(r, key, malformed)
	return true
}

// answer answers a question of the task that is open.
func (k *modelTask) answer(r *modelReplica, key string, malformed bool) {
	w := k.world
	fault, _ := r.port.state()
	said := fmt.Sprintf("%s-%d", k.key, len(k.sent)+1)
	content := fmt.Sprintf(`{"v":%q}`, said)
	if malformed {
		content = fmt.Sprintf(`{"v":%d}`, len(k.sent)+1)
	}
	sent := &modelAnswer{key: key, at: r, malformed: malformed}
	if fault == noFault || fault == unanswered {
		k.mu.Lock()
		k.sent[content] = sent
		k.mu.Unlock()
	}
	w.note("the client of %s answers %s at %s: %s", k.key, key, r.name, content)
	a := w.taskRequest(r, k.token, "tasks/update", k.id, k.params(fmt.Sprintf(`,"inputResponses":{%q:{"action":"accept","content":%s}}`, key, content)))
	accepted := k.acknowledged(r, fault, a)
	k.mu.Lock()
	sent.sure = accepted
	k.mu.Unlock()
}

// touchTaskOfAnother has another client ask about a task. It hears what it hears of a task that does not exist, and has no effect.
func (w *modelWorld) touchTaskOfAnother() bool {
	w.rest()
	k := w.anyTask()
	if k == nil {
		return false
	}
	r, token := w.anyReplica(), pick(w, modelTokens)
	if token == k.token {
		return false
	}
	fault, _ := r.port.state()
	method := pick(w, []string{"tasks/get", "tasks/cancel", "tasks/update"})
	w.note("%q asks for %s of %q at %s: %s", token, k.key, k.token, r.name, method)
	more := ""
	if method == "tasks/update" {
		run := k.lastRun()
		key := fmt.Sprintf("q%d", run.asked)
		if run.number > 1 {
			key = fmt.Sprintf("%s-run%d", key, run.number)
		}
		more = fmt.Sprintf(`,"inputResponses":{%q:{"action":"accept","content":{"v":"evil"}}}`, key)
	}
	a := w.taskRequest(r, token, method, k.id, k.params(more))
	if !w.away(r, fault, a) {
		require.True(w.t, a.is(errNoSuchTask), "%s", a)
		none := w.taskRequest(r, token, method, "nobody", `"taskId":"nobody"`+more)
		require.Equal(w.t, none.text, a.text)
	}
	return true
}

// waitForLostTask asks one replica for a task whose replica is away, for some time.
func (w *modelWorld) waitForLostTask() bool {
	w.rest()
	lost := slices.DeleteFunc(w.openTasks(), func(k *modelTask) bool { return !k.lastRun().at.killed && !k.lastRun().at.cut })
	if len(lost) == 0 {
		return false
	}
	k, r := pick(w, lost), w.anyReplica()
	for range 2 + w.random.IntN(3) {
		k.look(r)
		time.Sleep(time.Duration(8+w.random.IntN(12)) * time.Second)
		w.rest()
	}
	k.look(w.anyReplica())
	return true
}
