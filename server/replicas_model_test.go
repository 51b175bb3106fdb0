package server_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/needs"
)

// This is the random test of several replicas. A history is some dozens of commands: of clients (call, cancel,
// answer, hang up, resume, delete, set a log level, subscribe, use a state, begin, read, answer and cancel a task, each at any
// replica), of handlers and programs (say, ask, finish, update, notify), and of what goes wrong (a replica is killed, or has no store, or the store loses
// all that it has). Calls are of both eras. A single process could only do what the oracle expects of them, but
// for what docs/replicas.md does not promise. A failure prints the history and its seed, and
//
//	go test ./server -run 'TestReplicasModel$' -replicas.seed <seed>
//
// runs it again.
var (
	modelFor   = flag.Duration("replicas", 0, "how long TestReplicasModel goes on; 0 is the short form")
	modelFirst = flag.Uint64("replicas.first", 1, "the first seed of TestReplicasModel")
	modelSeed  = flag.Uint64("replicas.seed", 0, "the one seed of TestReplicasModel; 0 is all")
)

const (
	// shortHistories is how many histories the short form has.
	shortHistories = 45
	// historyLength is how many commands a history has.
	historyLength = 80
	// stuckAfter is how long a history may take, which takes some milliseconds. One that does not end says which it is.
	stuckAfter = 10 * time.Minute
)

func TestReplicasModel(t *testing.T) {
	if *modelSeed != 0 {
		runHistory(t, *modelSeed)
		return
	}
	n := uint64(shortHistories)
	if *modelFor == 0 && needs.Short(t, "server/most histories of replicas") {
		n /= 4
	}
	began, done := make(map[string]int), map[string]int{}
	end := time.Now().Add(*modelFor)
	seed := *modelFirst
	for ; !t.Failed() && (seed < *modelFirst+n || time.Now().Before(end)); seed++ {
		w := runHistory(t, seed)
		for what, times := range w.counts {
			done[what] += times
		}
		began["histories"]++
	}
	t.Logf("%d histories from seed %d: %v", began["histories"], *modelFirst, done)
	for _, c := range modelCommands {
		if *modelFor > 0 && done[c.name] == 0 {
			t.Errorf("no history has had the command %s", c.name)
		}
	}
}

// runHistory runs one history.
func runHistory(t *testing.T, seed uint64) (w *modelWorld) {
	t.Helper()
	w = newModelWorld(rand.New(rand.NewPCG(seed, 19)))
	stuck := time.AfterFunc(stuckAfter, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("the history with seed %d does not end", seed))
	})
	defer stuck.Stop()
	defer func() {
		v := recover() // a bubble that cannot end
		if v != nil {
			t.Errorf("%v", v)
		}
		if t.Failed() {
			t.Fatalf("seed %d:\n\t%s", seed, strings.Join(w.trace, "\n\t"))
		}
	}()
	cryptotest.SetGlobalRandom(t, seed) // so that the pauses of replicas are those of the seed
	synctest.Test(t, func(t *testing.T) {
		w.t, w.began, w.over = t, time.Now(), make(chan struct{})
		defer w.close()
		w.begin()
		for range historyLength {
			w.step()
		}
		w.finish()
	})
	return w
}

// note adds a line to the history.
func (w *modelWorld) note(format string, args ...any) {
	line := fmt.Sprintf("%9.3fs ", time.Since(w.began).Seconds()) + fmt.Sprintf(format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace = append(w.trace, line)
}

// A modelCommand is one kind of step. do reports false if there is nothing to do it to.
type modelCommand struct {
	name   string
	weight int
	do     func(w *modelWorld) bool
}

var modelCommands = []modelCommand{
	{"open a session", 2, (*modelWorld).openSession},
	{"plain call", 8, (*modelWorld).plainCall},
	{"call", 12, (*modelWorld).beginCall},
	{"say", 14, (*modelWorld).say},
	{"ask", 8, (*modelWorld).ask},
	{"answer", 8, (*modelWorld).answer},
	{"answer the question of another session", 2, (*modelWorld).answerOfOthers},
	{"finish", 6, (*modelWorld).finishCall},
	{"cancel", 5, (*modelWorld).cancel},
	{"cancel in another session", 2, (*modelWorld).cancelOfOthers},
	{"hang up", 9, (*modelWorld).hangUp},
	{"resume", 12, (*modelWorld).resume},
	{"delete", 1, (*modelWorld).deleteSession},
	{"set the log level", 3, (*modelWorld).setLevel},
	{"use the log level", 4, (*modelWorld).useLevel},
	{"open the own stream", 4, (*modelWorld).openOwn},
	{"leave the own stream", 2, (*modelWorld).leaveOwn},
	{"resume the own stream", 4, (*modelWorld).resumeOwn},
	{"answer on the own stream", 1, (*modelWorld).answerOwn},
	{"subscribe", 4, (*modelWorld).subscribe},
	{"unsubscribe", 1, (*modelWorld).unsubscribe},
	{"update a resource", 5, (*modelWorld).updateResource},
	{"notify", 5, (*modelWorld).notify},
	{"a modern call asks", 2, (*modelWorld).askModern},
	{"use a state", 5, (*modelWorld).useState},
	{"use a state twice at the same time", 1, (*modelWorld).useStateTwice},
	{"modern plain call", 3, (*modelWorld).modernPlainCall},
	{"modern call", 3, (*modelWorld).beginModernCall},
	{"modern say", 3, (*modelWorld).modernSay},
	{"modern finish", 2, (*modelWorld).finishModernCall},
	{"modern hang up", 1, (*modelWorld).leaveModernCall},
	{"begin a task", 5, (*modelWorld).beginTask},
	{"a task says", 3, (*modelWorld).taskSays},
	{"a task asks", 4, (*modelWorld).taskAsks},
	{"a task finishes", 3, (*modelWorld).taskFinishes},
	{"read a task", 8, (*modelWorld).getTask},
	{"answer a task", 6, (*modelWorld).answerTask},
	{"cancel a task", 2, (*modelWorld).cancelTask},
	{"ask for the task of another", 3, (*modelWorld).touchTaskOfAnother},
	{"wait for a lost task", 4, (*modelWorld).waitForLostTask},
	{"kill", 1, (*modelWorld).kill},
	{"shut down with tasks", 2, (*modelWorld).shutDown},
	{"start", 3, (*modelWorld).start},
	{"cut off", 2, (*modelWorld).cutOff},
	{"lose the store everywhere", 1, (*modelWorld).loseStoreEverywhere},
	{"heal", 4, (*modelWorld).heal},
	{"miss signals", 1, (*modelWorld).missSignals},
	{"lose all values", 1, (*modelWorld).loseValues},
	{"wait", 5, (*modelWorld).wait},
}

// weight returns how often a command comes. Some histories are about tasks: with more of them, and more that goes wrong.
func (w *modelWorld) weight(c modelCommand) int {
	switch {
	case w.storeAway && c.name == "heal":
		return 4 * c.weight
	case !w.aboutTasks:
		return c.weight
	case strings.Contains(c.name, "task"):
		return 5 * c.weight
	case slices.Contains([]string{"kill", "cut off", "start", "heal"}, c.name):
		return 3 * c.weight
	}
	return c.weight
}

// step does one random command. Sometimes the next one follows before this one has had all its effects.
func (w *modelWorld) step() {
	total := 0
	for _, c := range modelCommands {
		total += w.weight(c)
	}
	for {
		at := w.random.IntN(total)
		for _, c := range modelCommands {
			if at -= w.weight(c); at >= 0 {
				continue
			}
			if c.do(w) {
				w.counts[c.name]++
				if w.random.IntN(4) > 0 {
					w.rest()
				}
				return
			}
			break
		}
	}
}
