package server_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/store"
)

// A modelWorld has some replicas, their store, and their clients.
type modelWorld struct {
	t      *testing.T
	random *rand.Rand
	began  time.Time
	store  store.Memory
	counts map[string]int
	calm   bool // no replica loses the store

	replicas []*modelReplica // also those that were killed
	sessions []*modelSession
	calls    []*modelCall
	checks   []func() // of rest

	mu    sync.Mutex // guards the rest
	trace []string
	byKey map[string]*modelCall
	// logged is the number of the last event of each stream that the store has accepted.
	logged map[string]uint64
	broken []string // what must not happen, seen by other goroutines than that of the test
}

func newModelWorld(random *rand.Rand) *modelWorld {
	return &modelWorld{random: random, counts: map[string]int{}, byKey: map[string]*modelCall{}, logged: map[string]uint64{}}
}

// wrong notes what must not happen.
func (w *modelWorld) wrong(format string, args ...any) {
	w.note("WRONG: "+format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = append(w.broken, fmt.Sprintf(format, args...))
}

// A modelFault is what is wrong between a replica and the store.
type modelFault int32

const (
	noFault    modelFault = iota
	refuses               // each operation fails
	hangs                 // no operation returns before its deadline, and none has an effect
	unanswered            // operations have an effect, and no answer
)

func (f modelFault) String() string {
	return [...]string{"none", "operations fail", "operations hang", "operations are not answered"}[f]
}

// A modelPort is one replica's way to the store.
type modelPort struct {
	world *modelWorld
	name  string

	mu    sync.Mutex // guards the rest
	fault modelFault
	deaf  bool     // it hears no signals, and nothing else is wrong
	gaps  []func() // tell the listeners that they may have missed something
}

func (p *modelPort) state() (modelFault, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault, p.deaf
}

// set changes the fault. When signals are heard again, the listeners are told.
func (p *modelPort) set(fault modelFault, deaf bool) {
	p.mu.Lock()
	before := p.fault != noFault || p.deaf
	p.fault, p.deaf = fault, deaf
	gaps := slices.Clone(p.gaps)
	p.mu.Unlock()
	if before && fault == noFault && !deaf {
		for _, missed := range gaps {
			missed()
		}
	}
}

var errRefused = errors.New("connection refused")

// do does an operation as the fault has it.
func (p *modelPort) do(ctx context.Context, effect func() error) error {
	switch fault, _ := p.state(); fault {
	case refuses:
		return errRefused
	case hangs:
		<-ctx.Done()
		return ctx.Err()
	case unanswered:
		_ = effect()
		<-ctx.Done()
		return ctx.Err()
	}
	return effect()
}

func (p *modelPort) Get(ctx context.Context, key string) (value []byte, err error) {
	err = p.do(ctx, func() (err error) {
		value, err = p.world.store.Get(ctx, key)
		return err
	})
	return value, err
}

func (p *modelPort) Claim(ctx context.Context, key string, value []byte, life time.Duration) (claimed bool, err error) {
	err = p.do(ctx, func() (err error) {
		claimed, err = p.world.store.Claim(ctx, key, value, life)
		return err
	})
	return claimed, err
}

func (p *modelPort) Update(ctx context.Context, key string, change func([]byte) ([]byte, time.Duration, error)) error {
	return p.do(ctx, func() error { return p.world.store.Update(ctx, key, change) })
}

func (p *modelPort) Publish(ctx context.Context, channel string, message []byte) error {
	return p.do(ctx, func() error { return p.world.store.Publish(ctx, channel, message) })
}

func (p *modelPort) Listen(ctx context.Context, channels []string, receive func(string, []byte), missed func()) error {
	return p.do(ctx, func() error {
		p.mu.Lock()
		p.gaps = append(p.gaps, missed)
		p.mu.Unlock()
		return p.world.store.Listen(ctx, channels, func(channel string, message []byte) {
			if fault, deaf := p.state(); fault == noFault && !deaf {
				receive(channel, message)
			}
		}, missed)
	})
}

// Append also checks that the store accepts the events of a stream in their order, from any writer.
func (p *modelPort) Append(ctx context.Context, session string, e store.Event, b store.EventBounds) (out []store.EvictedEvent, err error) {
	err = p.do(ctx, func() (err error) {
		p.world.mu.Lock()
		defer p.world.mu.Unlock()
		if out, err = p.world.store.Append(ctx, session, e, b); err == nil {
			if last := p.world.logged[e.Stream]; e.Seq != last+1 {
				p.world.broken = append(p.world.broken, fmt.Sprintf("%s appends event %d of stream %s after event %d", p.name, e.Seq, e.Stream, last))
			}
			p.world.logged[e.Stream] = e.Seq
		}
		return err
	})
	return out, err
}

func (p *modelPort) After(ctx context.Context, session, stream string, seq uint64) (all []store.Event, err error) {
	err = p.do(ctx, func() (err error) {
		all, err = p.world.store.After(ctx, session, stream, seq)
		return err
	})
	return all, err
}

func (p *modelPort) Delete(ctx context.Context, session string) error {
	return p.do(ctx, func() error { return p.world.store.Delete(ctx, session) })
}

// A modelReplica is a server, and what the oracle knows of its process.
type modelReplica struct {
	name   string
	srv    *server.Server
	port   *modelPort
	killed bool
	cut    bool      // it is away from the store now
	healed time.Time // when that ended last
}

// recovery is how long a replica may take after an outage until it has told and heard everything.
const recovery = 40 * time.Second

// well reports whether a replica has the store, and has heard what it may have missed.
func (r *modelReplica) well() bool { return !r.killed && !r.cut && time.Since(r.healed) > recovery }

// begin starts the first replicas.
func (w *modelWorld) begin() {
	w.calm = w.random.IntN(3) == 0
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
	r := &modelReplica{name: name, port: port, srv: newReplica(w.t,
		server.WithStore(store.Store{Values: port, Signals: port, Events: port}),
		server.WithLimits(server.Limits{OrphanGrace: -1, MaxRequestTimeout: forEver, SessionIdle: forEver, InitializeTimeout: forEver}))}
	server.AddTool(r.srv, server.Tool{Name: "work", Deadline: forEver}, func(ctx context.Context, call *server.Call, in struct {
		Key string `json:"key"`
	}) (string, error) {
		w.mu.Lock()
		c := w.byKey[in.Key]
		w.mu.Unlock()
		return c.run(ctx, call)
	})
	server.AddTool(r.srv, server.Tool{Name: "echo"}, func(_ context.Context, _ *server.Call, in struct {
		Text string `json:"text"`
	}) (string, error) {
		return in.Text, nil
	})
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
	r := pick(w, all)
	w.note("kill %s", r.name)
	r.port.set(refuses, true)
	r.killed = true
	for _, c := range w.calls {
		if c.conn != nil && c.conn.at == r {
			c.hangUp()
		}
	}
	return true
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
	r := w.anyReplica()
	if r.cut || w.calm {
		return false
	}
	fault := pick(w, []modelFault{refuses, hangs, unanswered})
	w.note("cut off %s: %s", r.name, fault)
	r.cut = true
	r.port.set(fault, true)
	w.unsound(r, fault == unanswered)
	return true
}

func (w *modelWorld) heal() bool {
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
