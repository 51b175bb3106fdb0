package share

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

const slice = 10 * time.Millisecond

// take takes a turn, and waits for it if need be.
func take(t *testing.T, turns *Turns, c *Caller) *Turn {
	t.Helper()
	u := new(Turn)
	if err := turns.Take(context.Background(), u, c, time.Hour); err != nil {
		t.Error(err)
	}
	return u
}

func TestLoneCallerTakesAllTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		callers := NewTable()
		turns := callers.Turns(16, slice)
		for range 16 {
			take(t, turns, callerAt(callers, 1))
		}
		require.Equal(t, Usage{Size: 16, Used: 16, Holders: 1}, turns.Usage())
		require.Zero(t, turns.Waits())
	})
}

// Several callers take turns from the turn of the second one on, until one of them has been alone for a while and a thousand turns.
func TestSeveralTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		callers := NewTable()
		turns := callers.Turns(2, slice)
		alone := func(n int) {
			for range n {
				c := callerAt(callers, 1)
				take(t, turns, c).Give()
				c.Release() // its record is used again
			}
		}
		alone(2)
		require.False(t, turns.Several(), "a lone caller")
		other := callerAt(callers, 2)
		take(t, turns, other).Give()
		other.Release()
		require.True(t, turns.Several())
		alone(10 * severalTurns)
		require.True(t, turns.Several(), "the other one was there a moment ago")
		time.Sleep(severalFor + 1)
		require.True(t, turns.Several(), "nobody has looked at the clock")
		alone(severalTurns)
		require.False(t, turns.Several())
	})
}

// While several callers hold or want turns, the last one stays free. A caller that is alone may take it.
func TestOneTurnIsSpared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		callers := NewTable()
		turns := callers.Turns(3, time.Hour).SpareOne()
		first, second := callerAt(callers, 1), callerAt(callers, 2)
		var all []*Turn
		for range 3 {
			all = append(all, take(t, turns, first))
		}
		require.Equal(t, Usage{Size: 3, Used: 3, Holders: 1}, turns.Usage())
		got := make(chan *Turn, 10)
		want := func(c *Caller) { got <- take(t, turns, c) }
		go want(second)
		synctest.Wait()
		all[0].Give()
		synctest.Wait()
		require.Empty(t, got, "two are held, and the third is spared")
		all[1].Give()
		synctest.Wait()
		require.Len(t, got, 1)
		go want(first)
		go want(second)
		synctest.Wait()
		require.Len(t, got, 1)
		require.Equal(t, Usage{Size: 3, Used: 2, Holders: 2, Waiting: 2, Waiters: 2}, turns.Usage())
		(<-got).Give() // the second caller's
		synctest.Wait()
		require.Len(t, got, 1, "its other one")
		(<-got).Give()
		synctest.Wait()
		require.Len(t, got, 1, "the first one is alone")
		require.Equal(t, Usage{Size: 3, Used: 2, Holders: 1}, turns.Usage())
		require.NotNil(t, take(t, turns, first), "and may take all")
	})
}

// The only turn is not spared.
func TestTheOnlyTurnIsNotSpared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		callers := NewTable()
		turns := callers.Turns(1, time.Hour).SpareOne()
		held := take(t, turns, callerAt(callers, 1))
		got := make(chan *Turn, 1)
		go func() { got <- take(t, turns, callerAt(callers, 2)) }()
		synctest.Wait()
		require.Empty(t, got)
		held.Give()
		synctest.Wait()
		require.Len(t, got, 1)
	})
}

// A request that waits only because of others gets the spared turn when they do not want one any more.
func TestSparedTurnIsTakenWhenOthersHaveGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		callers := NewTable()
		turns := callers.Turns(2, time.Hour).SpareOne()
		first, second := callerAt(callers, 1), callerAt(callers, 2)
		take(t, turns, first)
		ctx, cancel := context.WithCancel(t.Context())
		gaveUp := make(chan error, 1)
		go func() { gaveUp <- turns.Take(ctx, new(Turn), second, time.Hour) }()
		synctest.Wait()
		got := make(chan *Turn, 1)
		go func() { got <- take(t, turns, first) }()
		synctest.Wait()
		require.Empty(t, got)
		cancel()
		synctest.Wait()
		require.ErrorIs(t, <-gaveUp, context.Canceled)
		require.Len(t, got, 1)
	})
}

// A hundred goroutines of one caller wait when one of another caller comes. It is next.
func TestTurnsGoRoundTheCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		callers := NewTable()
		turns := callers.Turns(1, time.Hour)
		greedy, modest := callerAt(callers, 1), callerAt(callers, 2)
		held := take(t, turns, greedy)
		var before atomic.Int32 // turns of the greedy caller before the modest one was served
		served := make(chan int32, 1)
		for range 100 {
			go func() {
				take(t, turns, greedy).Give()
				before.Add(1)
			}()
		}
		synctest.Wait()
		go func() {
			u := take(t, turns, modest)
			served <- before.Load()
			u.Give()
		}()
		synctest.Wait()
		require.Equal(t, Usage{Size: 1, Used: 1, Holders: 1, Waiting: 2, Waiters: 101}, turns.Usage())
		held.Give()
		require.LessOrEqual(t, <-served, int32(1))
		synctest.Wait()
		require.Equal(t, Usage{Size: 1}, turns.Usage())
		require.EqualValues(t, 101, turns.Waits().Waits)
	})
}

// A goroutine that blocks while it holds a turn loses it when others wait, and may give it back later.
func TestTurnOfOneThatBlocksLapses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		callers := NewTable()
		turns := callers.Turns(2, slice)
		blocked := []*Turn{take(t, turns, callerAt(callers, 1)), take(t, turns, callerAt(callers, 1))}
		time.Sleep(time.Minute)
		require.Zero(t, turns.Waits().Lapsed, "nobody waits")
		began := time.Now()
		next := take(t, turns, callerAt(callers, 2))
		require.GreaterOrEqual(t, time.Since(began), slice)
		require.LessOrEqual(t, time.Since(began), 2*slice)
		require.Equal(t, TurnWaits{Waits: 1, Waited: time.Since(began), Lapsed: 2}, turns.Waits())
		for _, u := range blocked {
			u.Give()
		}
		require.Equal(t, Usage{Size: 2, Used: 1, Holders: 1}, turns.Usage())
		next.Give()
		require.Equal(t, Usage{Size: 2}, turns.Usage())
	})
}

// While work goes on no turn is taken away, however long others wait.
func TestShortTurnsDoNotLapse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		callers := NewTable()
		turns := callers.Turns(1, slice)
		done := make(chan struct{})
		const goroutines = 50
		for n := range goroutines {
			go func() {
				u := take(t, turns, callerAt(callers, n%5))
				time.Sleep(slice / 2)
				u.Give()
				done <- struct{}{}
			}()
		}
		for range goroutines {
			<-done
		}
		require.Zero(t, turns.Waits().Lapsed)
		require.Equal(t, Usage{Size: 1}, turns.Usage())
	})
}

func TestWaitForTurnEnds(t *testing.T) {
	gone := errors.New("gone")
	for name, test := range map[string]struct {
		end  func(cancel context.CancelCauseFunc)
		want error
	}{
		"with its context":  {func(cancel context.CancelCauseFunc) { cancel(gone) }, gone},
		"with its patience": {func(context.CancelCauseFunc) { time.Sleep(time.Second) }, ErrNoTurn},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				callers := NewTable()
				turns := callers.Turns(1, time.Hour)
				held := take(t, turns, callerAt(callers, 1))
				ctx, cancel := context.WithCancelCause(context.Background())
				defer cancel(nil)
				got, u := make(chan error, 1), new(Turn)
				go func() { got <- turns.Take(ctx, u, callerAt(callers, 2), time.Second) }()
				synctest.Wait()
				test.end(cancel)
				require.ErrorIs(t, <-got, test.want)
				u.Give() // it is not held
				require.Equal(t, Usage{Size: 1, Used: 1, Holders: 1}, turns.Usage())
				require.EqualValues(t, 1, turns.Waits().Waits)
				held.Give()
				take(t, turns, callerAt(callers, 2)).Give()
			})
		})
	}
}

// Goroutines that wait again are served in their order, each once.
func TestGoroutinesWaitAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		callers := NewTable()
		turns, c := callers.Turns(1, time.Hour), callerAt(callers, 1)
		for range 5 {
			held := take(t, turns, c)
			var order []int
			var running sync.WaitGroup
			for i := range 3 {
				running.Go(func() {
					u := take(t, turns, c)
					order = append(order, i)
					u.Give()
				})
				synctest.Wait()
			}
			held.Give()
			running.Wait()
			require.Equal(t, []int{0, 1, 2}, order)
			require.Equal(t, Usage{Size: 1}, turns.Usage())
		}
	})
}

// A turn that comes to a goroutine whose context has just ended goes to the next one.
func TestTurnIsNotLostWhenItComesTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 100 {
			callers := NewTable()
			turns := callers.Turns(1, time.Hour)
			held := take(t, turns, callerAt(callers, 1))
			ctx, cancel := context.WithCancel(context.Background())
			var u Turn
			first, second := make(chan error, 1), make(chan error, 1)
			go func() { first <- turns.Take(ctx, &u, callerAt(callers, 2), time.Hour) }()
			synctest.Wait()
			go func() {
				take(t, turns, callerAt(callers, 3)).Give()
				second <- nil
			}()
			synctest.Wait()
			cancel()
			held.Give() // often before the first one has noticed
			if <-first == nil {
				u.Give()
			}
			require.NoError(t, <-second)
			require.Equal(t, Usage{Size: 1}, turns.Usage())
		}
	})
}

func TestTurnIsGivenBackOnce(t *testing.T) {
	callers := NewTable()
	turns := callers.Turns(2, slice)
	u, other := take(t, turns, callerAt(callers, 1)), take(t, turns, callerAt(callers, 1))
	u.Give()
	u.Give()
	(*Turn)(nil).Give()
	require.Equal(t, 1, turns.Usage().Used)
	require.NoError(t, turns.Take(t.Context(), u, callerAt(callers, 2), time.Hour))
	require.Equal(t, 2, turns.Usage().Used)
	held, _ := turns.Largest([]*Caller{u.caller, other.caller})
	require.Equal(t, 1, held)
}

func TestFreeTurnNeedsNoMemory(t *testing.T) {
	callers := NewTable()
	turns, c, u := callers.Turns(2, slice), callerAt(callers, 1), new(Turn)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_ = turns.Take(context.Background(), u, c, time.Hour)
		u.Give()
	}))
}

// A goroutine that has to wait needs no memory either, once others have waited.
func TestWaitForTurnNeedsNoMemory(t *testing.T) {
	callers := NewTable()
	turns, first, second := callers.Turns(1, time.Hour), new(Turn), new(Turn)
	one, other := callerAt(callers, 1), callerAt(callers, 2)
	ask, given := make(chan struct{}), make(chan error)
	go func() {
		for range ask {
			err := turns.Take(context.Background(), second, other, time.Hour)
			second.Give()
			given <- err
		}
	}()
	defer close(ask)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_ = turns.Take(context.Background(), first, one, time.Hour)
		ask <- struct{}{}
		for turns.Usage().Waiting == 0 {
			runtime.Gosched()
		}
		first.Give()
		if err := <-given; err != nil {
			t.Error(err)
		}
	}))
	require.Positive(t, turns.Waits().Waits)
}

// BenchmarkFreeTurn is what a turn costs a call when nobody waits.
func BenchmarkFreeTurn(b *testing.B) {
	callers := NewTable()
	turns, c, u := callers.Turns(2, slice), callerAt(callers, 1), new(Turn)
	for b.Loop() {
		_ = turns.Take(context.Background(), u, c, time.Hour)
		u.Give()
	}
}
