package share

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// callerAt returns the record of the n-th address.
func callerAt(t *Table, n int) *Caller {
	return t.Get(KeyOf(nil, netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})))
}

// takeAll takes slots until there are no more for the caller, and returns how many it took.
func takeAll(p *Pool, c *Caller) (n int) {
	for p.TryAcquire(c) {
		n++
	}
	return n
}

// bothKinds runs a test for a pool whose accounts are in the callers, and for one that has a
// table of them.
func bothKinds(t *testing.T, test func(t *testing.T, newPool func(size int) *Pool, callers *Table)) {
	for kind, own := range map[string]bool{"of the table": true, "of its own": false} {
		t.Run(kind, func(t *testing.T) {
			callers := NewTable()
			newPool := NewPool
			if own {
				newPool = callers.Pool
			}
			test(t, newPool, callers)
		})
	}
}

func TestLoneCallerLeavesTheReserve(t *testing.T) {
	for size, want := range map[int]int{0: 0, 1: 1, 3: 3, 4: 3, 16: 15, 32: 30, 4096: 3840} {
		callers := NewTable()
		p := callers.Pool(size)
		require.Equal(t, want, takeAll(p, callerAt(callers, 1)), "of %d", size)
		if size >= 4 {
			require.True(t, p.TryAcquire(callerAt(callers, 2)), "of %d", size)
		}
	}
}

// Nobody else can reach a process over stdio: its one caller may have everything.
func TestOnlyConnectionTakesTheReserve(t *testing.T) {
	callers := NewTable()
	p := callers.Pool(16)
	first := callers.Get(KeyOfConnection())
	require.Equal(t, 16, takeAll(p, first))
	for range 10 {
		p.Release(first)
	}
	second := callers.Get(KeyOfConnection())
	require.True(t, p.TryAcquire(second))
	require.Equal(t, 8, takeAll(p, first), "there are two now")
}

// How many callers it takes, each of which keeps as much as it gets, until one that holds
// nothing gets nothing: docs/limits.md has these numbers.
func TestCallersThatLockOutOthers(t *testing.T) {
	for size, want := range map[int]int{16: 2, 64: 5, 256: 12, 1024: 19, 4096: 25} {
		callers := NewTable()
		p := callers.Pool(size)
		n := 0
		for ; takeAll(p, callerAt(callers, n)) > 0; n++ {
		}
		require.Equal(t, want, n, "of %d", size)
	}
}

// A caller at its bound waits, although there are free slots, and others do not.
func TestBoundOfEachCaller(t *testing.T) {
	bothKinds(t, func(t *testing.T, newPool func(int) *Pool, callers *Table) {
		synctest.Test(t, func(t *testing.T) {
			p := newPool(16).Cap(2)
			greedy, modest := callerAt(callers, 1), callerAt(callers, 2)
			require.Equal(t, 2, takeAll(p, greedy))
			got := make(chan error, 1)
			go func() { got <- p.Acquire(t.Context(), greedy) }()
			synctest.Wait()
			require.Equal(t, 2, takeAll(p, modest))
			p.Release(modest)
			synctest.Wait()
			require.Equal(t, 1, p.Usage().Waiters)
			p.Release(greedy)
			require.NoError(t, <-got)
			require.Equal(t, 2, p.Held(greedy))
		})
	})
}

// The numbers of pages and metrics.
func TestUsageNamesTheLargestCaller(t *testing.T) {
	callers := NewTable()
	p, class, unread, queue := callers.Pool(16), NewPool(16), callers.Count(16), NewQueue(16)
	bytes := callers.Bytes(16, nil)
	one, two := callerAt(callers, 1), callerAt(callers, 2)
	for range 3 {
		require.True(t, p.TryAcquire(two))
		require.True(t, class.TryAcquire(two))
		require.True(t, bytes.Take(two, 1))
		unread.Add(two, 1)
		_, _ = queue.Enter(two, "class", "owner")
	}
	require.True(t, p.TryAcquire(one))
	unread.Add(one, 1)
	_, _ = queue.Enter(one, "other class", "owner")
	all := callers.All()
	require.ElementsMatch(t, []*Caller{one, two}, all)
	for name, largest := range map[string]func() (int, Key){
		"pool":   func() (int, Key) { return p.Largest(all) },
		"class":  func() (int, Key) { return class.Largest(all) },
		"queue":  queue.Largest,
		"bytes":  func() (int, Key) { return bytes.Largest(all) },
		"unread": func() (int, Key) { n, of, holders := unread.Largest(all); require.Equal(t, 2, holders); return n, of },
	} {
		held, of := largest()
		require.Equal(t, 3, held, name)
		require.Equal(t, two.Key(), of, name)
	}
	require.Equal(t, Usage{Size: 16, Used: 4, Holders: 2, Waiting: 2, Waiters: 4}, queue.Usage())
	require.Equal(t, Usage{Size: 16, Used: 4}, unread.Usage())
	require.Equal(t, Usage{Size: 16, Used: 3, Holders: 1}, bytes.Usage())
	bytes.Give(two, 3)
	for _, c := range all {
		c.Release()
		c.Release()
	}
	require.Zero(t, callers.Len(), "All has added one reference to each")
}

// A greedy caller with a long backlog delays a modest one by no more than one request.
func TestModestCallerDoesNotWaitBehindABacklog(t *testing.T) {
	bothKinds(t, func(t *testing.T, newPool func(int) *Pool, callers *Table) {
		synctest.Test(t, func(t *testing.T) {
			p := newPool(1)
			greedy, modest := callerAt(callers, 1), callerAt(callers, 2)
			var served []string
			work := func(c *Caller, name string) {
				if p.Acquire(t.Context(), c) == nil {
					served = append(served, name)
					time.Sleep(time.Second)
					p.Release(c)
				}
			}
			for i := range 5 {
				go work(greedy, fmt.Sprint("greedy ", i))
				synctest.Wait()
			}
			for i := range 2 {
				go work(modest, fmt.Sprint("modest ", i))
				synctest.Wait()
			}
			require.Equal(t, Usage{Size: 1, Used: 1, Holders: 1, Waiting: 2, Waiters: 6}, p.Usage())
			time.Sleep(10 * time.Second)
			synctest.Wait()
			require.Equal(t, []string{"greedy 0", "greedy 1", "modest 0", "greedy 2", "modest 1", "greedy 3", "greedy 4"}, served)
			require.Equal(t, Usage{Size: 1}, p.Usage())
			require.Empty(t, p.others)
		})
	})
}

// Of callers that wait, the one that holds the fewest slots is served first.
func TestFreedSlotGoesToTheSmallestCaller(t *testing.T) {
	bothKinds(t, func(t *testing.T, newPool func(int) *Pool, callers *Table) {
		synctest.Test(t, func(t *testing.T) {
			p := newPool(3)
			large, small, other := callerAt(callers, 1), callerAt(callers, 2), callerAt(callers, 3)
			require.True(t, p.TryAcquire(large))
			require.True(t, p.TryAcquire(large))
			require.True(t, p.TryAcquire(other))
			var served []string
			for _, c := range []*Caller{large, small} {
				go func() {
					if p.Acquire(t.Context(), c) == nil {
						served = append(served, c.Key().String())
					}
				}()
				synctest.Wait()
			}
			p.Release(other)
			synctest.Wait()
			require.Equal(t, []string{"10.0.0.2"}, served)
			p.Release(large)
			synctest.Wait()
			require.Equal(t, []string{"10.0.0.2", "10.0.0.1"}, served)
		})
	})
}

// A caller that waits for the reserve does not keep others from it.
func TestReserveIsNotBlockedByAWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		callers := NewTable()
		p := callers.Pool(16)
		large, small := callerAt(callers, 1), callerAt(callers, 2)
		require.Equal(t, 15, takeAll(p, large))
		ctx, cancel := context.WithCancelCause(t.Context())
		result := make(chan error, 1)
		go func() { result <- p.Acquire(ctx, large) }()
		synctest.Wait()
		require.True(t, p.TryAcquire(small))
		require.False(t, p.TryAcquire(large))
		tired := errors.New("tired")
		cancel(tired)
		synctest.Wait()
		require.Equal(t, tired, <-result)
		require.Equal(t, Usage{Size: 16, Used: 16, Holders: 2}, p.Usage())
	})
}

// Random schedules: slots are neither lost nor doubled, and no slot stays free that one who
// waits may have.
func TestSlotsAreNeitherLostNorDoubled(t *testing.T) {
	bothKinds(t, func(t *testing.T, newPool func(int) *Pool, callers *Table) {
		for seed := range uint64(20) {
			synctest.Test(t, func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(seed, 0))
				size := 1 + rnd.IntN(20)
				p := newPool(size)
				defer func() { callers.pools = 0 }()
				var running, peak atomic.Int64
				var served [5]atomic.Int64
				for i := range 300 {
					n, hold, patience := rnd.IntN(len(served)), rnd.IntN(20), rnd.IntN(400)
					c := callerAt(callers, n)
					go func() {
						defer c.Release()
						time.Sleep(time.Duration(i) * time.Millisecond)
						ctx, cancel := context.WithTimeout(t.Context(), time.Duration(patience)*time.Millisecond)
						defer cancel()
						if p.Acquire(ctx, c) != nil {
							return
						}
						now := running.Add(1)
						for old := peak.Load(); now > old && !peak.CompareAndSwap(old, now); old = peak.Load() {
						}
						served[n].Add(1)
						time.Sleep(time.Duration(hold) * time.Millisecond)
						running.Add(-1)
						p.Release(c)
					}()
				}
				for range 40 {
					time.Sleep(11 * time.Millisecond)
					synctest.Wait()
					p.mu.Lock()
					if len(p.waiting) > 0 {
						a := p.waiting[0]
						require.False(t, p.allows(a.first.caller, a, 1), "a slot stays free")
					}
					p.mu.Unlock()
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				require.LessOrEqual(t, peak.Load(), int64(size))
				require.Equal(t, Usage{Size: size}, p.Usage())
				require.Zero(t, callers.Len())
				for i := range served {
					require.NotZero(t, served[i].Load())
				}
			})
		}
	})
}

// A request that needs many slots gets what is freed, and small ones of callers that hold as little
// wait behind it. When it gives up, they go on.
func TestRequestOfManySlotsDoesNotStarve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		callers := NewTable()
		p := NewPool(64)
		busy, large, small := callerAt(callers, 1), callerAt(callers, 2), callerAt(callers, 3)
		require.True(t, p.TryAcquireN(busy, 30))
		require.True(t, p.TryAcquireN(busy, 30))
		require.False(t, p.TryAcquireN(busy, 1), "only the reserve is left")
		acquire := func(c *Caller, n int, patience time.Duration) <-chan error {
			done := make(chan error, 1)
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				done <- p.AcquireN(ctx, c, n)
			}()
			synctest.Wait()
			return done
		}
		waits := acquire(large, 40, time.Minute)
		require.False(t, p.TryAcquireN(small, 1))
		behind := acquire(small, 1, time.Hour)
		p.ReleaseN(busy, 30)
		synctest.Wait()
		require.Empty(t, waits)
		require.Empty(t, behind)
		p.ReleaseN(busy, 30)
		synctest.Wait()
		require.NoError(t, <-waits)
		require.NoError(t, <-behind)

		again := acquire(busy, 30, time.Second)
		other := callerAt(callers, 4)
		behind = acquire(other, 2, time.Hour)
		require.Empty(t, behind)
		require.Error(t, <-again)
		require.NoError(t, <-behind, "the one before it has given up")
		require.Equal(t, Usage{Size: 64, Used: 43, Holders: 3}, p.Usage())
	})
}
