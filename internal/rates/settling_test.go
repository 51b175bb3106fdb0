package rates

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/store"
)

// A token of a message that another rule refuses comes back.
func TestTokensOfARefusedMessageComeBack(t *testing.T) {
	inReplicas(t, 2, func(t *testing.T, shared *remote, all []*member) {
		shared.set(time.Millisecond, nil)
		require.True(t, all[0].passed())
		for range 3 {
			refused := all[1].Check(call("192.0.2.1:1", "x"), time.Now())
			require.NotNil(t, refused)
			require.Equal(t, "few", refused.Limit)
			time.Sleep(time.Second)
		}
		for range 4 {
			require.Nil(t, all[0].Check(call("192.0.2.1:1", "y"), time.Now()))
		}
		require.NotNil(t, all[0].Check(call("192.0.2.1:1", "y"), time.Now()), "the refused message has taken one for good")
	}, Rule{Name: "all", Requests: 5, Window: time.Hour}, Rule{Name: "few", Requests: 1, Window: time.Hour, Tools: []string{"x"}})
}

// A token that is on its way back to the store is not spent here meanwhile: another replica may get it.
func TestTokenOnItsWayBackIsNotSpent(t *testing.T) {
	inReplicas(t, 2, func(t *testing.T, shared *remote, all []*member) {
		shared.set(10*time.Millisecond, nil)
		require.True(t, all[0].passed())
		require.False(t, all[1].passed(), "the limit few refuses it")
		time.Sleep(settleAfter + time.Millisecond)
		passed := 1
		for _, m := range []*member{all[1], all[0], all[0], all[0], all[0], all[0]} {
			if m.Check(call("192.0.2.1:1", "y"), time.Now()) == nil {
				passed++
			}
		}
		require.Equal(t, 5, passed)
	}, Rule{Name: "all", Requests: 5, Window: time.Hour}, Rule{Name: "few", Requests: 1, Window: time.Hour, Tools: []string{"x"}})
}

// Callers with many addresses do not take all connections of the store, nor memory without bound.
func TestManyBucketsAreSettled(t *testing.T) {
	inReplicas(t, 1, func(t *testing.T, shared *remote, all []*member) {
		shared.set(10*time.Millisecond, nil)
		for i := range 5000 {
			m := call(fmt.Sprintf("10.0.%d.%d", i>>8, i&255), "x")
			require.Nil(t, all[0].Check(m, time.Now()))
		}
		shared.running.Wait()
		require.LessOrEqual(t, shared.max, maxSettling)
		require.LessOrEqual(t, shared.taken(), 1000+maxSettling, "as many as there may be buckets")
		require.Equal(t, 1000, all[0].States(time.Now())[0].Buckets)
	}, Rule{Name: "x", Requests: 100, Window: time.Hour, Per: []string{PerAddress}})
}

// Buckets that come while others are being settled take no more connections, and the queue stays bounded, also if
// the store is so slow that messages do not wait for it any more.
func TestSlowStoreBoundsWhatIsSettled(t *testing.T) {
	for _, burst := range []int{5, 20, 100} { // of which 0, 1 and 5 tokens may be spent ahead
		inReplicas(t, 1, func(t *testing.T, shared *remote, all []*member) {
			shared.set(2*patience, nil)
			for wave := range 5 {
				var each sync.WaitGroup
				for i := range 600 {
					each.Go(func() {
						if all[0].Check(call(fmt.Sprintf("10.%d.%d.%d", wave, i>>8, i&255), "x"), time.Now()) != nil {
							t.Error("the first message of an address is refused")
						}
					})
				}
				each.Wait()
				time.Sleep(2 * settleAfter)
			}
			l := all[0].Limiter
			l.mu.Lock()
			waiting := len(l.sharing.queue)
			l.mu.Unlock()
			require.LessOrEqual(t, waiting, 1000, "as many as there may be buckets")
			shared.running.Wait()
			require.LessOrEqual(t, shared.max, maxSettling)
		}, Rule{Name: "x", Requests: burst, Window: time.Hour, Per: []string{PerAddress}})
	}
}

// A queue that is full gives back no tokens of which the store is just being told.
func TestFullQueueGivesNothingBack(t *testing.T) {
	inReplicas(t, 1, func(t *testing.T, shared *remote, all []*member) {
		shared.set(2*settleAfter, nil)
		for range 3 { // the store is asked at the third
			require.True(t, all[0].passed())
		}
		l := all[0].Limiter
		bound := func(n int) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.max = n
		}
		bound(0) // the queue is full when the time of the first comes
		time.Sleep(settleAfter + time.Millisecond)
		bound(1000)
		shared.running.Wait()
		got, err := shared.memory.Take(t.Context(), (key{}).shared("x"), store.Bucket{Burst: 100, Fill: time.Hour}, 0, 0)
		require.NoError(t, err)
		require.InDelta(t, 97, got.Left, 0.1)
	}, Rule{Name: "x", Requests: 100, Window: time.Hour})
}
