package stream

import (
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A fate is a delivery that notes what becomes of its message.
type fate struct{ said string }

func (f *fate) Claim() bool                   { return true }
func (f *fate) Sent()                         { f.said += "sent" }
func (f *fate) Stored()                       { f.said += "stored" }
func (f *fate) Dropped(reason mcp.DropReason) { f.said += "dropped " + string(reason) }

func newTestStream(cfg Config) *Stream {
	return New(&Host{
		Limits: limits.Limits{}.WithDefaults(), Logger: slog.New(slog.DiscardHandler), LimitReached: func(string) {},
		Go: func(f func()) { go f() }, Written: func(any, int, time.Duration) {},
	}, cfg)
}

// A recordingSink is a sink to which every write succeeds.
type recordingSink struct{ frames []string }

func (k *recordingSink) Write(m *Message) error {
	k.frames = append(k.frames, string(m.Frame)+string(m.Rest))
	return nil
}
func (k *recordingSink) Flush() error               { return nil }
func (k *recordingSink) SetWriteDeadline(time.Time) {}

// The answers of a batch leave in one array and share its fate, and the stream forgets the
// batch.
func TestBatchSharesItsFate(t *testing.T) {
	st, sink := newTestStream(Config{Answers: 1, Loss: LossDrops}), &recordingSink{}
	b := st.NewBatch()
	var first, second fate
	b.Expect()
	b.Expect()
	b.Push(&Message{Kind: Answer, Frame: []byte("1"), Delivery: &first})
	b.Received(false)
	queued, held, bytes := st.Waiting()
	require.Empty(t, queued)
	require.Len(t, held, 1)
	require.Equal(t, 1, bytes)
	b.Push(&Message{Kind: Answer, Frame: []byte("2"), Rest: []byte("!"), Delivery: &second})
	require.Empty(t, st.arrays)
	require.NoError(t, st.Pump(sink))
	require.Equal(t, []string{"[1,2!]"}, sink.frames)
	require.Equal(t, []string{"sent", "sent"}, []string{first.said, second.said})
}

// A batch in which nothing is answered leaves no array, and the stream forgets it.
func TestBatchWithoutAnswers(t *testing.T) {
	st := newTestStream(Config{Loss: LossFails})
	b := st.NewBatch()
	b.Received(false)
	require.Empty(t, st.arrays)
	queued, held, bytes := st.Waiting()
	require.Empty(t, append(queued, held...))
	require.Zero(t, bytes)
}

// What waits for the rest of its array is dropped when the stream fails.
func TestFailDropsAnswersThatWaitForOthers(t *testing.T) {
	st := newTestStream(Config{Loss: LossFails})
	b := st.NewBatch()
	b.Expect()
	b.Expect()
	var waiting, late fate
	b.Push(&Message{Kind: Answer, Frame: []byte("1"), Delivery: &waiting})
	st.Fail(mcp.DropBrokenPeer)
	b.Push(&Message{Kind: Answer, Frame: []byte("2"), Delivery: &late})
	require.Equal(t, "dropped broken_peer", waiting.said)
	require.Equal(t, "dropped broken_peer", late.said)
}

// The array of a batch has the bytes of its answers. They do not keep theirs.
func TestArrayTakesTheMemoryOfItsAnswers(t *testing.T) {
	heap := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	const n, size = 16, 1 << 20
	st := newTestStream(Config{Answers: 1, Loss: LossDrops})
	b := st.NewBatch()
	before := heap()
	for range n {
		b.Expect()
	}
	b.Received(false)
	for range n {
		b.Push(&Message{Kind: Answer, Frame: make([]byte, size), Delivery: new(fate)})
	}
	queued, _, bytes := st.Waiting()
	require.Len(t, queued, 1)
	require.Greater(t, bytes, n*size)
	require.Less(t, heap()-before, n*size*5/4)
	require.Equal(t, bytes, queued[0].Size())
	for _, m := range queued[0].Delivery.(*array).answers {
		require.Equal(t, size, m.Size())
	}
}
