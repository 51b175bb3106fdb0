package server_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/store"
)

// A modelWorld has some replicas, their store, and their clients.
type modelWorld struct {
	t          *testing.T
	random     *rand.Rand
	began      time.Time
	store      store.Memory
	losses     atomic.Int64 // how often the store has lost all that it has
	counts     map[string]int
	calm       bool          // no replica loses the store
	storeAway  bool          // from all replicas
	aboutTasks bool          // of the history
	emptied    time.Time     // when the store has lost all last
	over       chan struct{} // closed at the end of the history

	replicas []*modelReplica // also those that were killed
	sessions []*modelSession
	calls    []*modelCall
	modern   []*modernCall
	states   []*modelState
	tasks    []*modelTask
	checks   []func() // of rest
	// notifications is how many there were, and the number of the last one.
	notifications int

	mu    sync.Mutex // guards the rest
	trace []string
	// handlers are those of the calls of the tool work, by their keys.
	handlers map[string]*modelHandler
	// jobs are the calls that become tasks, by their keys.
	jobs map[string]*modelTask
	// logged is the number of the last event of each stream that the store has accepted.
	logged map[string]uint64
	broken []string // what must not happen, seen by other goroutines than that of the test
}

func newModelWorld(random *rand.Rand) *modelWorld {
	w := &modelWorld{random: random, counts: map[string]int{}, handlers: map[string]*modelHandler{}, jobs: map[string]*modelTask{}, logged: map[string]uint64{}}
	w.store.Now = func() time.Time { return time.Now().Add(time.Duration(w.losses.Load()) * 10_000 * time.Hour) } // all lives end
	return w
}

// wrong notes what must not happen.
func (w *modelWorld) wrong(format string, args ...any) {
	w.note("WRONG: "+format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = append(w.broken, fmt.Sprintf(format, args...))
}

// A modelReplica is a server, and what the oracle knows of its process.
type modelReplica struct {
	name    string
	srv     *server.Server
	port    *modelPort
	killed  bool      // or it has shut down
	down    time.Time // when it began to shut down
	ended   time.Time // when it was killed
	cut     bool      // it is away from the store now
	healed  time.Time // when that ended last
	outages []modelOutage
}

// recovery is how long a replica may take after an outage until it has told and heard everything.
const recovery = 40 * time.Second

// well reports whether a replica has the store, and has heard what it may have missed.
func (r *modelReplica) well() bool { return !r.killed && !r.cut && time.Since(r.healed) > recovery }

// allWell reports whether all replicas that were not killed are well.
func (w *modelWorld) allWell() bool {
	return !slices.ContainsFunc(w.alive(), func(r *modelReplica) bool { return !r.well() })
}

// begin starts the first replicas.
func (w *modelWorld) begin() {
	w.calm, w.aboutTasks = w.random.IntN(3) == 0, w.random.IntN(3) == 0
	for range 2 + w.random.IntN(2) {
		w.addReplica()
	}
	for range 2 {
		w.openSession()
	}
	w.rest()
}

func (w *modelWorld) addReplica() *modelReplica {
	name := fmt.Sprintf("r%d", len(w.replicas)+1)
	port := &modelPort{world: w, name: name}
	const forEver = 1000 * time.Hour
	r := &modelReplica{name: name, port: port, srv: newReplica(w.t, server.WithSingleUseStates(),
		server.WithStore(store.Store{Values: port, Signals: port, Events: port}),
		withReplicaTasks,
		server.WithLimits(server.Limits{
			OrphanGrace: -1, MaxRequestTimeout: forEver, SessionIdle: forEver, InitializeTimeout: forEver, TaskTTL: forEver, MaxTaskTTL: forEver,
		}))}
	server.AddTool(r.srv, server.Tool{Name: "work", Deadline: forEver}, func(ctx context.Context, call *server.Call, in struct {
		Key string `json:"key"`
	}) (string, error) {
		w.mu.Lock()
		h := w.handlers[in.Key]
		w.mu.Unlock()
		return h.run(ctx, call)
	})
	server.AddTool(r.srv, server.Tool{Name: "echo"}, func(_ context.Context, _ *server.Call, in struct {
		Text string `json:"text"`
	}) (string, error) {
		return in.Text, nil
	})
	addLog(r.srv)
	addThings(r.srv)
	addTwo(r.srv)
	w.addTasks(r)
	w.replicas = append(w.replicas, r)
	synctest.Wait()
	return r
}

// alive returns the replicas that were not killed.
func (w *modelWorld) alive() (all []*modelReplica) {
	for _, r := range w.replicas {
		if !r.killed {
			all = append(all, r)
		}
	}
	return all
}

func pick[T any](w *modelWorld, all []T) T { return all[w.random.IntN(len(all))] }

func (w *modelWorld) anyReplica() *modelReplica { return pick(w, w.alive()) }

// kill ends a process: its connections break, and nothing that it still does has an effect.
func (w *modelWorld) kill() bool {
	w.rest()
	all := w.alive()
	if len(all) < 2 {
		return false
	}
	r := w.anyVictim()
	w.note("kill %s", r.name)
	w.endProcess(r)
	return true
}

// endProcess ends the process of a replica.
func (w *modelWorld) endProcess(r *modelReplica) {
	r.port.set(refuses, true)
	r.killed, r.ended = true, time.Now()
	r.loseStore(w, refuses)
	for _, c := range w.calls {
		if c.conn != nil && c.conn.at == r {
			c.hangUp()
		}
	}
	for _, m := range w.modern {
		if m.home == r {
			m.conn.leave()
		}
	}
	for _, s := range w.sessions {
		if s.own != nil && s.own.conn != nil && s.own.conn.at == r {
			s.own.leave()
		}
	}
}

func (w *modelWorld) start() bool {
	if len(w.alive()) > 3 {
		return false
	}
	w.rest()
	w.note("start %s", w.addReplica().name)
	return true
}

// cutOff takes the store from a replica.
func (w *modelWorld) cutOff() bool {
	w.rest()
	r := w.anyVictim()
	if r.cut || w.calm {
		return false
	}
	w.cutOffReplica(r, pick(w, []modelFault{refuses, hangs, unanswered}))
	return true
}

func (w *modelWorld) cutOffReplica(r *modelReplica, fault modelFault) {
	w.note("cut off %s: %s", r.name, fault)
	r.cut = true
	r.port.set(fault, true)
	r.loseStore(w, fault)
	w.unsound(r, fault == unanswered)
}

func (w *modelWorld) heal() bool {
	if w.storeAway {
		w.rest()
		w.healAll()
		return true
	}
	r := w.anyReplica()
	if !r.cut {
		return false
	}
	w.rest()
	w.note("heal %s", r.name)
	w.healReplica(r)
	return true
}

func (w *modelWorld) healReplica(r *modelReplica) {
	r.cut, r.healed = false, time.Now()
	for _, s := range w.sessions {
		s.listener.loose = true
	}
	r.haveStore()
	r.port.set(noFault, false)
}

// missSignals has a replica hear no signals for a while. Then it learns that it has missed some.
func (w *modelWorld) missSignals() bool {
	w.rest()
	r := w.anyReplica()
	if r.cut || w.calm {
		return false
	}
	lasts := time.Duration(1+w.random.IntN(90)) * time.Second
	w.note("%s hears no signals for %s", r.name, lasts)
	r.cut = true
	r.port.set(noFault, true)
	w.unsound(r, false)
	time.Sleep(lasts)
	w.healReplica(r)
	return true
}

// unsound notes that streams which a replica writes may not be resumed any more. Neither may those that it
// reads: it cannot tell a writer that is dead from signals that are lost.
func (w *modelWorld) unsound(r *modelReplica, repeats bool) {
	w.unsoundOwn(r)
	for _, c := range w.calls {
		if (c.home == r || c.conn != nil && c.conn.at == r) && c.client.answered() == "" {
			if c.sound = false; repeats {
				c.client.mayRepeat()
			}
		}
	}
}

func (w *modelWorld) wait() bool {
	lasts := time.Duration(w.random.Int64N(int64(time.Minute)))
	w.note("wait %s", lasts)
	time.Sleep(lasts)
	return true
}

// close ends all servers, also those that were killed.
func (w *modelWorld) close() {
	for _, c := range w.calls {
		if c.conn != nil {
			c.conn.leave()
		}
	}
	for _, m := range w.modern {
		m.conn.leave()
	}
	for _, s := range w.sessions {
		if s.own != nil {
			s.own.leave()
		}
	}
	close(w.over)
	for _, r := range w.replicas {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_ = r.srv.Shutdown(ctx)
		cancel()
	}
	time.Sleep(time.Hour)
	synctest.Wait()
	if !w.t.Failed() {
		require.Empty(w.t, w.broken)
	}
}
