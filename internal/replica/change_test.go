package replica

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/store"
)

// A change that waits counts once, and too many become one.
func TestOutbox(t *testing.T) {
	var o outbox
	require.True(t, o.put(Change{Kind: 1}), "the first has it emptied")
	require.False(t, o.put(Change{Kind: 1}))
	require.False(t, o.put(Change{Kind: 2, Name: "a"}))
	take := func(want ...Change) {
		t.Helper()
		for _, w := range want {
			c, ok := o.take()
			require.True(t, ok)
			require.Equal(t, w, c)
		}
	}
	take(Change{Kind: 1})
	require.False(t, o.put(Change{Kind: 1}), "it may have changed after it was sent")
	take(Change{Kind: 2, Name: "a"}, Change{Kind: 1})
	_, ok := o.take()
	require.False(t, ok)

	require.True(t, o.put(Change{Kind: 1}))
	for i := range maxWaiting + 10 {
		o.put(Change{Kind: 2, Name: strconv.Itoa(i)})
	}
	take(Change{All: true})
	_, ok = o.take()
	require.False(t, ok)

	require.True(t, o.put(Change{Kind: 1}))
	take(Change{Kind: 1})
	o.failed()
	require.True(t, o.put(Change{Kind: 2}), "somebody tries again")
	take(Change{All: true})
}

// slowSignals is a store that takes a time for each signal, and counts them.
type slowSignals struct {
	store.Memory
	took      time.Duration
	published atomic.Int64
}

func (s *slowSignals) Publish(ctx context.Context, channel string, message []byte) error {
	time.Sleep(s.took)
	s.published.Add(1)
	return s.Memory.Publish(ctx, channel, message)
}

// Close waits for what it has taken no longer than for a few calls of the store, although the program goes on to publish and the
// store is slower than it. What is left becomes one signal of each kind.
func TestCloseWhileAProgramPublishes(t *testing.T) {
	for name, publish := range map[string]func(l *Link, n int){
		"changes":       func(l *Link, n int) { l.Publish(Change{Kind: 1, Name: strconv.Itoa(n)}) },
		"notifications": func(l *Link, n int) { l.Publish(Change{Method: "notifications/x"}) },
		"tasks":         func(l *Link, n int) { l.TellTask(strconv.Itoa(n)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				shared := &slowSignals{took: 20 * time.Millisecond}
				l := New(Config{
					Store: store.Store{Values: shared, Signals: shared}, Logger: slog.New(slog.DiscardHandler), Timeout: time.Second, MaxPending: 1,
					Core: session.New(session.Config{Logger: slog.New(slog.DiscardHandler)}), Missed: func() {},
				})
				ctx, cancel := context.WithCancel(t.Context())
				var program sync.WaitGroup
				program.Go(func() {
					for n := 0; ctx.Err() == nil; n++ {
						publish(l, n)
						time.Sleep(time.Millisecond / 10)
					}
				})
				time.Sleep(time.Second)
				began, before := time.Now(), shared.published.Load()
				closed := make(chan struct{})
				go func() { l.Close(); close(closed) }()
				select {
				case <-closed:
				case <-time.After(10 * time.Second):
					t.Error("Close waits without end")
				}
				require.LessOrEqual(t, time.Since(began), l.Timeout+2*shared.took)
				require.Greater(t, shared.published.Load(), before, "what was taken is published")
				cancel()
				program.Wait()
				<-closed
			})
		})
	}
}
