package server_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// This file has the runs of the handlers of tasks, which do what they are told, and what the oracle expects of them.

// A modelRun is one run of the handler of a task. The mutex of its task guards it, but for what never changes.
type modelRun struct {
	task   *modelTask
	number int // from 1
	at     *modelReplica
	began  time.Time
	orders chan string

	ctx      context.Context // of the task; nil before Detach
	refused  error           // of Detach
	said     []modelSaying
	asked    int
	asking   string // what the handler calls the question that it waits for; "" is none
	since    time.Time
	heard    []modelHeard
	unasked  []modelUnasked
	told     error     // by a question that its context ends
	toldAt   time.Time // when
	finished bool      // it has returned its result
	ended    bool      // it has returned
	returned time.Time // when
	cause    error     // why its context had ended then
}

// A modelSaying is a message of a handler.
type modelSaying struct {
	text string
	at   time.Time
}

// A modelHeard is an answer that a handler has heard.
type modelHeard struct{ question, answer string }

// A modelUnasked is a question that has failed.
type modelUnasked struct {
	question string
	err      error
	from, to time.Time
}

// maxRuns is the default of max_task_runs.
const maxRuns = 3

// run is the handler of both tools that have tasks.
func (k *modelTask) run(ctx context.Context, call *server.Call, at *modelReplica) (string, error) {
	k.mu.Lock()
	run := &modelRun{task: k, number: len(k.runs) + 1, at: at, began: time.Now(), orders: make(chan string, 1)}
	k.runs = append(k.runs, run)
	k.mu.Unlock()
	k.world.note("  %s begins at %s", run, at.name)
	ctx, err := call.Detach(ctx, server.TaskOptions{Message: "begun"})
	k.mu.Lock()
	run.ctx, run.refused = ctx, err
	k.mu.Unlock()
	if err != nil {
		return "", err
	}
	over := ctx.Done()
	if k.stubborn {
		over = k.world.over
	}
	for {
		select {
		case order := <-run.orders:
			switch order {
			case "say":
				_ = call.Progress(float64(run.says()), 0, run.said[len(run.said)-1].text)
			case "ask":
				run.ask(call)
			case "finish":
				run.end(true)
				return run.result(), nil
			}
		case <-over:
			run.end(false)
			return "", context.Cause(ctx)
		}
	}
}

func (run *modelRun) String() string { return fmt.Sprintf("run %d of %s", run.number, run.task.key) }

// result is what a run returns.
func (run *modelRun) result() string { return fmt.Sprintf("%s has done it", run) }

// says notes the next message, and returns its number.
func (run *modelRun) says() int {
	run.task.mu.Lock()
	defer run.task.mu.Unlock()
	run.said = append(run.said, modelSaying{fmt.Sprintf("%s says %d", run, len(run.said)+1), time.Now()})
	return len(run.said)
}

// ask asks the client, and waits for the answer.
func (run *modelRun) ask(call *server.Call) {
	k := run.task
	k.mu.Lock()
	question, from := run.asking, time.Now()
	k.mu.Unlock()
	answer, err := call.Elicit(question, form(question, `"v":{"type":"string"}`))
	k.mu.Lock()
	defer k.mu.Unlock()
	run.asking = ""
	switch {
	case err == nil:
		run.heard = append(run.heard, modelHeard{question, string(answer.Content)})
	case errors.Is(err, mcp.ErrClientCancelled), errors.Is(err, mcp.ErrReplicaLost):
		run.told, run.toldAt = err, time.Now() // perhaps before its context has ended
	case run.ctx.Err() == nil:
		run.unasked = append(run.unasked, modelUnasked{question, err, from, time.Now()})
	}
}

func (run *modelRun) end(finished bool) {
	run.task.mu.Lock()
	defer run.task.mu.Unlock()
	run.ended, run.finished, run.returned, run.cause = true, finished, time.Now(), context.Cause(run.ctx)
}

// stopped returns why the context of a handler has ended, or nil. That of one that has returned is as it was then. The caller must
// hold the mutex of its task.
func (run *modelRun) stopped() error {
	if run.ended {
		return run.cause
	}
	return context.Cause(run.ctx)
}

// idle reports whether a handler waits for an order, in a process that lives.
func (run *modelRun) idle() bool {
	run.task.mu.Lock()
	defer run.task.mu.Unlock()
	return run.ctx != nil && run.refused == nil && !run.ended && run.asking == "" && len(run.orders) == 0 && !run.at.killed
}

// order has the handler do something.
func (run *modelRun) order(what string) {
	run.task.world.note("%s: %s", run, what)
	if what == "ask" {
		run.task.mu.Lock()
		run.asked++
		run.asking, run.since = fmt.Sprintf("q%d", run.asked), time.Now()
		run.task.mu.Unlock()
	}
	run.orders <- what
}

// idleRun returns one of the handlers that wait for an order, also one that another replica has followed, or nil.
func (w *modelWorld) idleRun() *modelRun {
	var all []*modelRun
	for _, k := range w.tasks {
		for _, run := range k.allRuns() {
			if run.idle() {
				all = append(all, run)
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	return pick(w, all)
}

func (w *modelWorld) taskSays() bool     { return w.orderRun("say") }
func (w *modelWorld) taskAsks() bool     { return w.orderRun("ask") }
func (w *modelWorld) taskFinishes() bool { return w.orderRun("finish") }

func (w *modelWorld) orderRun(what string) bool {
	run := w.idleRun()
	if run != nil {
		run.order(what)
	}
	return run != nil
}

// check checks a run when nothing is under way. The caller must hold the mutex of its task.
func (run *modelRun) check() {
	k, t := run.task, run.task.world.t
	if run.ctx == nil || run.refused != nil || run.at.killed {
		return
	}
	soon := run.ended && run.returned.Sub(run.toldAt) < time.Second
	require.True(t, run.told == nil || soon || run.stopped() != nil, "%s is told %v, and goes on", run, run.told)
	heard := map[string]bool{}
	for _, h := range run.heard {
		sent := k.sent[h.answer]
		require.NotNil(t, sent, "%s has heard %s, which its client has not said", run, h.answer)
		require.False(t, sent.malformed, "%s has heard %s, which is no answer", run, h.answer)
		require.False(t, heard[h.answer], "%s has heard %s twice", run, h.answer)
		heard[h.answer] = true
		require.True(t, k.isQuestion(run, h.question, sent.key), "%s has asked %s, and has heard %s, which answers %s", run, h.question, h.answer, sent.key)
	}
	for _, u := range run.unasked {
		if u.err.Error() == errNoSuchTask.Error() {
			require.True(t, k.lost(), "%s cannot ask: %v", run, u.err)
			continue
		}
		require.Equal(t, errTasksAway.Error(), u.err.Error(), "%s cannot ask", run)
		require.False(t, run.at.settled(u.from), "%s cannot ask, and %s has the store", run, run.at.name)
	}
	switch cause := run.stopped(); {
	case cause == nil:
		k.checkCancelled(run)
		// "A replica that was cut off or stopped for that long learns it when it comes back: the handler's context ends with
		// mcp.ErrReplicaLost"
		over := run != k.runs[len(k.runs)-1] || k.final != ""
		// The replica that knows may tell it only when it has the store again.
		require.False(t, over && !run.ended && !k.lost() && k.world.allWell(), "%s goes on, and its task does not need it", run)
	case errors.Is(cause, mcp.ErrClientCancelled):
		require.NotEmpty(t, k.cancels, "%s was not cancelled", run)
	case errors.Is(cause, mcp.ErrReplicaLost):
		// "A replica that was cut off or stopped for that long learns it when it comes back"
		require.True(t, run.at.lost(run.began, time.Now(), k.world.replicas...), "%s ends, and %s is not lost", run, run.at.name)
	default:
		require.NoError(t, cause, "%s", run)
	}
	k.checkHeard(run)
}

// checkCancelled checks that a handler that goes on need not have heard of a cancel.
func (k *modelTask) checkCancelled(run *modelRun) {
	if k.lost() || run.ended || len(k.cancels) == 0 {
		return
	}
	c := k.cancels[0] // a later one may find that the task has ended, and then tells nobody
	require.False(k.world.t, c.sure && c.losses == k.world.losses.Load() && c.at.well() && run.at.well(), "%s was cancelled at %s, and goes on", run, c.at.name)
}

// checkHeard checks that a handler that waits need not have heard an answer. One that has returned had another order before the one
// to ask.
func (k *modelTask) checkHeard(run *modelRun) {
	if run.asking == "" || run.ended || run.stopped() != nil || k.lost() {
		return
	}
	for answer, sent := range k.sent {
		must := sent.sure && !sent.malformed && sent.at.well() && run.at.well()
		require.False(k.world.t, must && k.isQuestion(run, run.asking, sent.key), "%s has not heard %s", run, answer)
	}
}

// isQuestion reports whether a question has a key in the record of its task: "Their keys are not used again: those of the second run
// end in -run2".
func (k *modelTask) isQuestion(run *modelRun, question, key string) bool {
	if run.number == 1 {
		return key == question
	}
	keys := []string{fmt.Sprintf("%s-run%d", question, run.number)}
	if k.world.mayHaveClaimed(k.created) { // a replica that has taken the task over, and does not know
		keys = append(keys, fmt.Sprintf("%s-run%d", question, run.number+1))
	}
	return slices.Contains(keys, key)
}
