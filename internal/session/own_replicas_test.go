package session

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/share"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A network carries signals and shared states between the cores of several replicas, and takes some time.
type network struct {
	mu      sync.Mutex // guards the rest
	random  *rand.Rand
	nodes   []*node
	state   SharedState
	unsure  float64       // the part of deliveries whose sender does not learn that they have succeeded
	held    chan struct{} // the next change waits until it is closed; nil is none
	changes int           // of the shared state so far
	over    chan struct{} // closed at the end
}

// A node is one replica. It implements [Elsewhere].
type node struct {
	*world
	network *network
	name    string
	session *Session
	inbox   chan func(c *Core)
}

// inNetwork runs a test with several replicas that serve one session.
func inNetwork(t *testing.T, seed uint64, replicas int, test func(n *network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := &network{over: make(chan struct{}), random: rand.New(rand.NewPCG(seed, 0))} //nolint:gosec // a test that can be repeated
		id := ""
		for i := range replicas {
			at := &node{world: newWorld(t, limits.Limits{}), network: n, name: fmt.Sprintf("replica%d", i), inbox: make(chan func(*Core), 1000)}
			n.nodes = append(n.nodes, at)
			at.core.ServeElsewhere(at, func(*Session, SharedState) {})
			if i == 0 {
				id = at.seal()
			} else {
				at.core.SealSessions(testRing(t), func(*Session) {})
			}
			at.session, _, _ = at.core.Visit(id, httpConn, nil)
			at.session.Initialized()
			go func() {
				for {
					select {
					case take := <-at.inbox:
						take(at.core)
					case <-n.over:
						return
					}
				}
			}()
		}
		test(n)
		for _, at := range n.nodes {
			at.session.Leave()
			at.end()
		}
		close(n.over)
	})
}

// pass takes some time, and reports whether something happens that does so with a probability.
func (n *network) pass(probability float64) bool {
	n.mu.Lock()
	took, happens := time.Duration(n.random.IntN(2000))*time.Microsecond, n.random.Float64() < probability
	n.mu.Unlock()
	time.Sleep(took)
	return happens
}

// below returns a random number below n.
func (n *network) below(limit int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.random.IntN(limit)
}

func (at *node) Replica() string { return at.name }

func (at *node) Send(_ share.Key, m Signal) bool {
	at.core.tasks.start(func() {
		at.network.pass(0)
		at.publish(m)
	})
	return true
}

func (at *node) Deliver(_ share.Key, m Signal) (sent, tried bool) {
	unsure := at.network.pass(at.network.unsure)
	if !unsure || at.network.pass(0.5) {
		at.publish(m)
	}
	return !unsure, true
}

func (at *node) publish(m Signal) {
	for _, to := range at.network.nodes {
		if to != at && (m.To == "" || m.To == to.name) {
			to.take(func(c *Core) { c.Arrived(m) })
		}
	}
}

// take has the node's core take something after what came before.
func (at *node) take(f func(c *Core)) {
	select {
	case at.inbox <- f:
	case <-at.network.over:
	}
}

func (at *node) State(context.Context, string) (SharedState, error) {
	at.network.pass(0)
	at.network.mu.Lock()
	defer at.network.mu.Unlock()
	return at.network.state, nil
}

func (at *node) Forget(context.Context, string) {}

func (at *node) Change(_ context.Context, id string, ends time.Time, change func(*SharedState)) (SharedState, error) {
	at.network.mu.Lock() // without a pause: its caller holds a mutex, for which others would stop the clock
	if held := at.network.held; held != nil {
		at.network.held = nil
		at.network.mu.Unlock()
		<-held
		at.network.mu.Lock()
	}
	at.network.changes++
	if at.network.changes == 10_000 {
		panic("the replicas do not come to an end")
	}
	st := at.network.state
	st.Streams = slices.Clone(st.Streams)
	change(&st)
	at.network.state = st
	at.network.mu.Unlock()
	at.core.tasks.start(func() {
		at.network.pass(0)
		for _, to := range at.network.nodes {
			if to != at {
				to.take(func(c *Core) { c.StateArrived(id, ends, st) })
			}
		}
	})
	return st, nil
}

// listens opens the session's own stream at a replica for a time, and returns what the client has read.
func (at *node) listens(d time.Duration) []string {
	st, sink := at.core.Exchange(httpConn, 0, mcp.Legacy), &scriptSink{}
	if !at.session.Attach(st) {
		time.Sleep(d)
		return nil
	}
	pumped := make(chan struct{})
	go func() {
		defer close(pumped)
		_ = st.Pump(sink)
	}()
	time.Sleep(d)
	sink.leave()
	<-pumped
	at.session.Detach(st)
	return sink.frames()
}

// Replicas send notifications and questions while the client opens its own stream here and there. Each message
// comes once at most, those of one sender come in their order, and each notification counts once, where it was
// sent from: as sent exactly if the client has it, unless nobody knows.
func TestMessagesForAMovingOwnStream(t *testing.T) {
	for seed := range uint64(30) {
		for _, unsure := range []float64{0, 0.1} {
			t.Run(fmt.Sprintf("%d/%v", seed, unsure), func(t *testing.T) {
				inNetwork(t, seed, 3, func(n *network) {
					n.unsure = unsure
					n.sendAll(t)
				})
			})
		}
	}
}

// sendAll has all replicas but the first send, and checks what has become of that.
func (n *network) sendAll(t *testing.T) {
	const senders, messages = 2, 25
	var sending sync.WaitGroup
	for i, at := range n.nodes[1:] {
		for sender := range senders {
			sending.Go(func() {
				for number := range messages {
					time.Sleep(time.Duration(n.below(4)) * time.Millisecond)
					name := fmt.Sprintf("test/%d/%d", i, sender)
					_ = at.session.Notify(context.Background(), name, fmt.Appendf(nil, `{"number":%d}`, number), "")
					if number%5 == 0 {
						ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
						_, _ = at.session.Ask(ctx, "test/question", nil)
						cancel()
					}
				}
			})
		}
	}
	over := make(chan struct{})
	go func() {
		sending.Wait()
		close(over)
	}()
	var streams [][]string
	for open := true; open; {
		at := n.nodes[n.below(len(n.nodes))]
		streams = append(streams, at.listens(time.Duration(1+n.below(40))*time.Millisecond))
		select {
		case <-over:
			open = false
		default:
		}
	}
	time.Sleep(2 * time.Minute) // until each fate is known
	got := map[string]int{}
	for _, frames := range streams {
		last := map[string]int{}
		for _, f := range frames {
			if strings.Contains(f, `"method":"notifications/cancelled"`) {
				continue
			}
			require.Zero(t, got[f], "%s comes twice", f)
			got[f]++
			if method, rest, found := strings.Cut(f, `","params":{"number":`); found {
				number := 0
				_, err := fmt.Sscan(strings.TrimRight(rest, "}"), &number)
				require.NoError(t, err)
				require.GreaterOrEqual(t, number, last[method], "%s is out of order", f)
				last[method] = number
			}
		}
	}
	for i, at := range n.nodes {
		counters := at.core.Snapshot().Counters
		sent, unconfirmed, all := 0, 0, 0
		for method, count := range counters.NotificationsSent {
			if strings.HasPrefix(method, "test/") {
				require.True(t, strings.HasPrefix(method, fmt.Sprintf("test/%d/", i-1)), "%s counts at replica %d", method, i)
				sent += int(count) //nolint:gosec // small
			}
		}
		for d, count := range counters.NotificationsDropped {
			if strings.HasPrefix(d.Method, "test/") {
				all += int(count) //nolint:gosec // small
				if d.Reason == mcp.DropUnconfirmed {
					unconfirmed += int(count) //nolint:gosec // small
				}
			}
		}
		all += sent
		if i == 0 {
			require.Zero(t, all)
			continue
		}
		require.Equal(t, senders*messages, all, "each notification has one fate")
		came := 0
		for f := range got {
			if strings.Contains(f, fmt.Sprintf(`"method":"test/%d/`, i-1)) {
				came++
			}
		}
		require.LessOrEqual(t, sent, came)
		require.LessOrEqual(t, came, sent+unconfirmed)
		if n.unsure == 0 {
			require.Zero(t, unconfirmed)
		}
		require.Positive(t, sent)
	}
}

// An object of a session that has ended here does not argue with the one that has replaced it about where the own
// stream is.
func TestReplacedSessionSaysNothingOfTheOwnStream(t *testing.T) {
	inNetwork(t, 1, 2, func(n *network) {
		at, held := n.nodes[0], make(chan struct{})
		before := at.session
		id := before.handedOut
		before.Leave()
		st := at.core.Exchange(httpConn, 0, mcp.Legacy)
		require.True(t, before.Attach(st))
		n.held = held
		before.Close(mcp.CauseSessionEvicted) // it tells the others that the stream is gone, which takes a while
		synctest.Wait()
		at.session, _, _ = at.core.Visit(id, httpConn, nil)
		require.NotSame(t, before, at.session)
		over := make(chan []string)
		go func() { over <- at.listens(time.Minute) }()
		synctest.Wait()
		close(held)
		time.Sleep(time.Second)
		n.mu.Lock()
		changes, state := n.changes, n.state
		n.mu.Unlock()
		<-over
		require.LessOrEqual(t, changes, 6)
		require.Equal(t, []OwnStream{{Replica: at.name, Read: true}}, state.Streams)
	})
}
