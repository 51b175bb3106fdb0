package session

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// TestBlockedTime: waits that overlap count once, and one that goes on counts so far.
func TestBlockedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b blockedTime
		check := func(want time.Duration) {
			t.Helper()
			if got := b.total(); got != want {
				t.Errorf("blocked for %v, want %v", got, want)
			}
		}
		var waiting bool
		begin := func() {
			t.Helper()
			b.begin(func() { waiting = true })
			if !waiting {
				t.Error("nobody waits")
			}
		}
		end := func(last bool) {
			t.Helper()
			b.end(func() { waiting = false })
			if waiting == last {
				t.Errorf("waiting: %v", waiting)
			}
		}
		check(0)
		begin()
		time.Sleep(time.Second)
		check(time.Second)
		begin()
		time.Sleep(time.Second)
		end(false)
		time.Sleep(time.Second)
		end(true)
		check(3 * time.Second)
		time.Sleep(time.Second)
		check(3 * time.Second)
		begin()
		time.Sleep(time.Second)
		end(true)
		check(4 * time.Second)
	})
}

// TestBlockedUntilTheLastAnswer: a handler that asks twice at once is blocked until both
// answers are there, in whatever order they come.
func TestBlockedUntilTheLastAnswer(t *testing.T) {
	for _, order := range [][]string{{"1", "2"}, {"2", "1"}} {
		inWorld(t, limits.Limits{}, func(w *world) {
			asked := make(chan error, 2)
			release := make(chan struct{})
			w.handle("work", func(ctx context.Context, r *Request) (mcp.Result, error) {
				for range 2 {
					go func() {
						_, err := r.Ask(ctx, "roots/list", nil)
						asked <- err
					}()
				}
				<-release
				return &textResult{}, nil
			})
			p := w.connect(true)
			p.call("1", "work")
			state := func() string {
				w.settle()
				return w.core.Snapshot().Requests[0].State
			}
			require.Equal(t, "blocked", state())
			p.send(replyFrame(order[0], `{}`))
			require.Equal(t, "blocked", state(), "the other is waited for")
			require.NoError(t, <-asked)
			p.send(replyFrame(order[1], `{}`))
			require.Equal(t, "running", state())
			require.NoError(t, <-asked)
			close(release)
		})
	}
}
