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
	resets   bool
	deadline time.Time
	set      int // how often
	left     []time.Duration
}

func (k *limitedSink) Write(m *Message) error {
	k.left = append(k.left, time.Until(k.deadline))
	return k.recordingSink.Write(m)
}

func (k *limitedSink) SetWriteDeadline(at time.Time) { k.deadline, k.set = at, k.set+1 }
func (k *limitedSink) ResetsWhenIdle() bool          { return k.resets }

// limited runs a test with a stream that writes to a sink.
func limited(t *testing.T, sink *limitedSink, test func(st *Stream, timeout time.Duration, write func())) {
	synctest.Test(t, func(t *testing.T) {
		st := newTestStream(Config{Loss: LossFails})
		written := make(chan error)
		go func() { written <- st.Pump(sink) }()
		test(st, st.host.Limits.WriteTimeout, func() {
			require.NoError(t, st.Notify(t.Context(), &Message{Kind: Notification, Frame: []byte("x"), Delivery: new(fate)}, time.Second))
			synctest.Wait()
		})
		st.Fail(mcp.DropBrokenPeer)
		require.Error(t, <-written)
	})
}

// Writes that follow each other quickly share a deadline, and each has nine tenths of the time at least.
func TestFrequentWritesShareTheirDeadline(t *testing.T) {
	sink := new(limitedSink)
	limited(t, sink, func(_ *Stream, timeout time.Duration, write func()) {
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
	})
}

// A write that has little time has all of it, whatever the deadline of the write before it was.
func TestHurriedWriteHasAllOfItsTime(t *testing.T) {
	for pause := range 40 {
		sink := new(limitedSink)
		limited(t, sink, func(st *Stream, timeout time.Duration, write func()) {
			write()
			time.Sleep(timeout * time.Duration(pause) / 30)
			bound := time.Now().Add(time.Second)
			st.Hurry(bound)
			write()
			require.LessOrEqual(t, sink.left[1], time.Second)
			require.Greater(t, sink.left[1], time.Second*9/10, "%d thirtieths after the write before", pause)
		})
	}
}

// A sink whose deadline takes effect while nothing is written has none then.
func TestIdleSinkHasNoDeadline(t *testing.T) {
	for _, resets := range []bool{false, true} {
		sink := &limitedSink{resets: resets}
		limited(t, sink, func(_ *Stream, timeout time.Duration, write func()) {
			for range 3 {
				write()
				require.Equal(t, resets, sink.deadline.IsZero())
				time.Sleep(2 * timeout)
			}
			require.Equal(t, []time.Duration{timeout, timeout, timeout}, sink.left)
		})
	}
}
