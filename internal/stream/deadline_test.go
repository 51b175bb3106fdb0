package stream

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// A limitedSink notes how much time each write had.
type limitedSink struct {
	recordingSink
	deadline time.Time
	set      int // how often
	left     []time.Duration
}

func (k *limitedSink) Write(m *Message) error {
	k.left = append(k.left, time.Until(k.deadline))
	return k.recordingSink.Write(m)
}

func (k *limitedSink) SetWriteDeadline(at time.Time) { k.deadline, k.set = at, k.set+1 }

// Writes that follow each other quickly share a deadline, and each has nine tenths of the time at least. The bound of an
// end holds at once, and another sink gets a deadline of its own.
func TestFrequentWritesShareTheirDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, sink := newTestStream(Config{Loss: LossFails}), new(limitedSink)
		timeout := st.host.Limits.WriteTimeout
		written := make(chan error)
		go func() { written <- st.Pump(sink) }()
		write := func() {
			require.NoError(t, st.Notify(t.Context(), &Message{Kind: Notification, Frame: []byte("x"), Delivery: new(fate)}, time.Second))
			synctest.Wait()
		}
		for range 100 {
			write()
			time.Sleep(timeout / 50)
		}
		require.Len(t, sink.left, 100)
		require.Equal(t, 20, sink.set)
		for _, left := range sink.left {
			require.Greater(t, left, timeout*9/10)
			require.LessOrEqual(t, left, timeout)
		}
		sink.left = nil
		write()
		st.Hurry(time.Now().Add(time.Second))
		write()
		require.Equal(t, time.Second, sink.left[1])

		other := new(limitedSink)
		st.mu.Lock()
		st.limitWrite(other, time.Now())
		st.mu.Unlock()
		require.Equal(t, 1, other.set)
		st.Fail(mcp.DropBrokenPeer)
		require.Error(t, <-written)
	})
}
