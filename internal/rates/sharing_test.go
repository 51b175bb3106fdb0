package rates

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/store"
)

// A remote is the store of the replicas of a test, which takes its time.
type remote struct {
	memory  store.Memory
	running sync.WaitGroup

	mu       sync.Mutex // guards the rest
	delay    time.Duration
	err      error
	takes    int
	now, max int // takes at the same time
}

func (r *remote) Take(ctx context.Context, name string, burst int, fill time.Duration, spent, more int) (int, float64, error) {
	r.mu.Lock()
	delay, err := r.delay, r.err
	r.takes++
	r.now++
	r.max = max(r.max, r.now)
	r.mu.Unlock()
	time.Sleep(delay / 2)
	var got store.Tokens
	if ctx.Err() == nil {
		got, _ = r.memory.Take(ctx, name, store.Bucket{Burst: burst, Fill: fill}, spent, more)
	}
	time.Sleep(delay - delay/2)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now--
	return got.Taken, got.Left, errors.Join(err, ctx.Err())
}

func (r *remote) set(delay time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.delay, r.err = delay, err
}

// taken returns how often the store was asked since the last time.
func (r *remote) taken() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, r.takes = r.takes, 0
	return n
}

// A member is the limiter of one replica. It lives as long as its context.
type member struct {
	*Limiter
	*remote
	ctx               context.Context
	failed, recovered int
}

// Run implements [Store].
func (m *member) Run(work func(context.Context)) bool {
	if m.ctx.Err() == nil {
		m.running.Go(func() { work(m.ctx) })
	}
	return m.ctx.Err() == nil
}

const patience = 250 * time.Millisecond

// inReplicas runs a test in a bubble, with a store and so many replicas that have the same rules.
func inReplicas(t *testing.T, n int, test func(t *testing.T, shared *remote, all []*member), rules ...Rule) {
	synctest.Test(t, func(t *testing.T) {
		shared := &remote{}
		var all []*member
		for range n {
			m := &member{Limiter: limiter(t, rules...), remote: shared, ctx: t.Context()}
			m.Share(Sharing{
				Store: m, Patience: patience,
				Failed: func(error) { m.failed++ }, Recovered: func(time.Duration) { m.recovered++ },
			})
			all = append(all, m)
		}
		defer shared.running.Wait()
		test(t, shared, all)
	})
}

// passed reports whether a message passes now.
func (m *member) passed() bool { return m.Check(call("192.0.2.1:1", "x"), time.Now()) == nil }

// A bucket that is too small to be spent ahead is exact, in whichever order replicas ask.
func TestReplicasShareASmallBucket(t *testing.T) {
	inReplicas(t, 3, func(t *testing.T, shared *remote, all []*member) {
		shared.set(4*time.Millisecond, nil)
		for _, step := range []struct {
			pause time.Duration
			want  int
		}{{0, 7}, {0, 0}, {time.Second, 1}, {2 * time.Second, 2}, {time.Hour, 7}} {
			time.Sleep(step.pause)
			var mu sync.Mutex
			var each sync.WaitGroup
			passed := 0
			for i := range 60 {
				each.Go(func() {
					if all[i%3].passed() {
						mu.Lock()
						defer mu.Unlock()
						passed++
					}
				})
			}
			each.Wait()
			require.Equal(t, step.want, passed)
		}
	}, Rule{Name: "x", Requests: 60, Window: time.Minute, Burst: 7})
}

// What one replica has learned of an empty bucket needs no second question.
func TestRefusalNeedsNoStore(t *testing.T) {
	inReplicas(t, 2, func(t *testing.T, shared *remote, all []*member) {
		for range 5 {
			require.True(t, all[0].passed())
		}
		require.Equal(t, 5, shared.taken())
		for range 100 {
			refused := all[1].Check(call("192.0.2.1:1", "x"), time.Now())
			require.NotNil(t, refused)
			require.InDelta(t, time.Minute, refused.RetryAfter, float64(time.Millisecond))
		}
		require.Equal(t, 1, shared.taken())
	}, Rule{Name: "x", Requests: 5, Window: 5 * time.Minute})
}

// A message that a replica may spend ahead waits for no store. It hears of it a moment later.
func TestMessageNeedsNoStore(t *testing.T) {
	inReplicas(t, 2, func(t *testing.T, shared *remote, all []*member) {
		shared.set(time.Millisecond, nil)
		for i := range 100 {
			began := time.Now()
			require.True(t, all[i%2].passed())
			require.Zero(t, time.Since(began))
			require.Zero(t, shared.taken())
			time.Sleep(settleAfter + time.Millisecond)
			require.Equal(t, 1, shared.taken())
			time.Sleep(time.Second)
		}
	}, Rule{Name: "x", Requests: 100, Window: time.Second})
}

// Many messages are told to the store together.
func TestMessagesAreSettledTogether(t *testing.T) {
	inReplicas(t, 1, func(t *testing.T, shared *remote, all []*member) {
		shared.set(time.Millisecond, nil)
		began := time.Now()
		for range 2000 {
			require.True(t, all[0].passed())
			time.Sleep(500 * time.Microsecond)
		}
		require.Equal(t, time.Second, time.Since(began), "none waits for the store")
		require.LessOrEqual(t, shared.taken(), 40, "half of the 100 tokens that may be spent ahead, for each")
	}, Rule{Name: "x", Requests: 2000, Window: time.Second})
}

// A replica that has not heard that others have emptied the bucket spends no more than it may spend ahead.
func TestReplicaThatHasNotHeard(t *testing.T) {
	inReplicas(t, 3, func(t *testing.T, shared *remote, all []*member) {
		shared.set(time.Millisecond, nil)
		for _, want := range []int{100, 5, 5} {
			m := all[0]
			all = all[1:]
			passed := 0
			for range 200 {
				if m.passed() {
					passed++
				}
			}
			require.Equal(t, want, passed)
		}
	}, Rule{Name: "x", Requests: 1, Window: time.Hour, Burst: 100})
}

// admissions are the times of messages that passed, in their order.
type admissions []time.Time

// most returns by how much any stretch of time has more messages than its share of the rate.
func (a admissions) most(rate float64) (most float64) {
	least := math.Inf(1)
	for i, at := range a {
		over := float64(i) - rate*at.Sub(a[0]).Seconds()
		least = min(least, over)
		most = max(most, over-least+1)
	}
	return most
}

// In any stretch of t seconds replicas admit no more than burst + rate·t and what each of them may spend
// ahead, however the traffic is divided, and the callers get nearly all that the rule allows.
func TestReplicasKeepToTheRule(t *testing.T) {
	for _, rule := range []Rule{
		{Requests: 5, Window: time.Second},
		{Requests: 60, Window: time.Minute, Burst: 19},
		{Requests: 100, Window: time.Second, Burst: 20},
		{Requests: 100, Window: time.Second},
		{Requests: 300, Window: time.Second, Burst: 1000},
	} {
		for seed := range uint64(20) {
			rule.Name = "x"
			inReplicas(t, 3, func(t *testing.T, shared *remote, all []*member) {
				random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // a test repeats it
				rate, burst := float64(rule.Requests)/rule.Window.Seconds(), float64(rule.tokens())
				var passed admissions
				began, pauses := time.Now(), seed%2 == 0
				for span := time.Duration(0); span < time.Minute; span = time.Since(began) {
					if random.IntN(200) == 0 {
						shared.set(time.Duration(random.IntN(20))*time.Millisecond, nil)
					}
					if pauses && random.IntN(2000) == 0 { // tokens come back
						time.Sleep(time.Duration(random.IntN(3)) * time.Second)
					}
					if all[random.IntN(3)*random.IntN(2)].passed() {
						passed = append(passed, time.Now())
					}
					time.Sleep(time.Duration(random.ExpFloat64() / rate / 3 * float64(time.Second)))
				}
				slack := 3 * float64(rule.tokens()/aheadShare)
				require.LessOrEqual(t, passed.most(rate), burst+slack+1e-6)
				if !pauses {
					require.GreaterOrEqual(t, float64(len(passed)), 0.9*(burst+rate*time.Since(began).Seconds())-2, "the store answers within 20 ms")
				}
			}, rule)
		}
	}
}

// A replica that gets all the traffic gets all of the rate, although others have had a share before.
func TestLoneReplicaGetsTheRate(t *testing.T) {
	for _, burst := range []int{1, 5, 20, 100, 1000} {
		inReplicas(t, 3, func(t *testing.T, shared *remote, all []*member) {
			shared.set(time.Millisecond, nil)
			for i := range 30 {
				all[i%3].passed()
			}
			time.Sleep(time.Duration(burst) * 100 * time.Millisecond) // the bucket is full
			began, passed := time.Now(), 0
			const seconds = 300
			for time.Since(began) < seconds*time.Second {
				if all[1].passed() {
					passed++
				}
				time.Sleep(5 * time.Millisecond)
			}
			want := float64(burst) + 10*seconds
			require.LessOrEqual(t, float64(passed), want+1)
			require.GreaterOrEqual(t, float64(passed), 0.9*want)
		}, Rule{Name: "x", Requests: 10, Window: time.Second, Burst: burst})
	}
}

// While the store fails each replica has the bucket to itself, and asks once a second whether it is back.
func TestStoreThatFails(t *testing.T) {
	inReplicas(t, 2, func(t *testing.T, shared *remote, all []*member) {
		shared.set(0, errors.New("down"))
		for _, m := range all {
			passed := 0
			for range 30 {
				if m.passed() {
					passed++
				}
			}
			require.Equal(t, 10, passed)
			synctest.Wait() // the failure is told after those who waited may go on
			require.Equal(t, 1, m.failed)
			require.EqualValues(t, 30, m.States(time.Now())[0].Local)
		}
		time.Sleep(59 * time.Second)
		require.Equal(t, 2, shared.taken(), "once for each replica")
		for range 100 {
			require.False(t, all[0].passed())
		}
		time.Sleep(time.Second)
		require.Equal(t, 1, shared.taken())

		shared.set(0, nil)
		all[0].passed()
		synctest.Wait()
		all[1].passed()
		synctest.Wait()
		for _, m := range all {
			require.Equal(t, []int{1, 1}, []int{m.failed, m.recovered})
			before := m.States(time.Now())[0].Local
			m.passed()
			require.Equal(t, before, m.States(time.Now())[0].Local)
		}
	}, Rule{Name: "x", Requests: 10, Window: 10 * time.Minute})
}

// A message waits for a store that hangs no longer than its patience, and gives back its turn before.
func TestStoreThatHangs(t *testing.T) {
	inReplicas(t, 1, func(t *testing.T, shared *remote, all []*member) {
		shared.set(time.Hour, nil)
		for i := range 3 {
			began, turn := time.Now(), turnOf(0)
			m := call("192.0.2.1:1", "x")
			m.Turn = &turn
			require.Nil(t, all[0].Check(m, began))
			require.Equal(t, patience, time.Since(began))
			require.EqualValues(t, 1, turn)
			require.EqualValues(t, i+1, all[0].States(time.Now())[0].Local)
		}
		began := time.Now()
		require.False(t, all[0].passed())
		require.Zero(t, time.Since(began))
	}, Rule{Name: "x", Requests: 3, Window: 100 * time.Hour})
}

// A turnOf counts how often a turn was given back.
type turnOf int

func (n *turnOf) GiveTurn() { *n++ }

// A replica that ends tells the store what it has spent.
func TestReplicaThatEndsSettles(t *testing.T) {
	inReplicas(t, 2, func(t *testing.T, shared *remote, all []*member) {
		var end context.CancelFunc
		all[0].ctx, end = context.WithCancel(t.Context())
		for range 5 {
			require.True(t, all[0].passed())
		}
		end()
		began := time.Now()
		shared.running.Wait()
		require.Zero(t, time.Since(began))
		got, err := shared.memory.Take(t.Context(), (key{}).shared("x"), store.Bucket{Burst: 1000, Fill: time.Hour}, 0, 0)
		require.NoError(t, err)
		require.InDelta(t, 995, got.Left, 0.1)
		require.True(t, all[0].passed(), "what comes after that is decided alone")
	}, Rule{Name: "x", Requests: 1000, Window: time.Hour})
}

// The name of a bucket is the same at all replicas and releases, another one for each key, and says nothing of
// the caller.
func TestNamesOfSharedBuckets(t *testing.T) {
	names := map[string]bool{}
	for _, rule := range everyKey() {
		for _, m := range []*Message{as("ann", "acme", call("192.0.2.1", "x")), as("bob", "", call("192.0.2.2", "y"))} {
			name := rule.key(m).shared(rule.Name)
			require.Len(t, name, 43)
			names[name] = true
		}
	}
	require.Len(t, names, 9, "the method of both is the same")
	require.NotEqual(t, key{issuer: "a", subject: "bc"}.shared("x"), key{issuer: "ab", subject: "c"}.shared("x"))
	rule := Rule{Name: "calls", Per: []string{PerPrincipal}}
	require.Equal(t, "_MAYLaYKCeSWgUGdMpsvt8iWgjstOKBC_HeJKcylSEM", rule.key(as("ann", "acme", call("", "x"))).shared("calls"))
}

// A connection without an address is one of this process: its bucket is nobody else's.
func TestBucketOfAConnectionIsNotShared(t *testing.T) {
	inReplicas(t, 1, func(t *testing.T, shared *remote, all []*member) {
		require.Nil(t, all[0].Check(&Message{Method: "x", Conn: &struct{ int }{}}, time.Now()))
		time.Sleep(time.Second)
		require.Zero(t, shared.taken())
	}, Rule{Name: "x", Requests: 1, Window: time.Hour, Per: []string{PerAddress}})
}
