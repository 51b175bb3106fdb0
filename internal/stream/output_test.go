package stream

import (
	"context"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/share"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// Refused makes a fate a [Notice].
func (f *fate) Refused(context.Context, mcp.DropReason, bool) (mcp.DropReason, error) { return "", nil }

// withOutput gives a stream a budget that it shares with others. The connection of a stream is the
// key of its caller.
func withOutput(t *testing.T, size int64) (*share.Table, *Output) {
	table := share.NewTable()
	o := &Output{
		CallerOf: func(conn any) *share.Caller { return table.Get(conn.(share.Key)) },
		HasShed:  func(*share.Caller, int, int64) {},
	}
	o.Budget = table.Bytes(size, o.Shed)
	t.Cleanup(func() {
		bytes, _ := o.Held()
		require.Zero(t, bytes)
		require.Zero(t, table.Len())
		require.Nil(t, o.first)
	})
	return table, o
}

func (o *Output) stream(cfg Config, caller share.Key) *Stream {
	cfg.Conn = caller
	st := newTestStream(cfg)
	st.host.Output = o
	return st
}

func notification(key string, n int) (*Message, *fate) {
	f := &fate{}
	return &Message{Kind: Notification, Frame: fmt.Appendf(nil, "%s %d", key, n), Key: Key{Name: key}, Delivery: f}, f
}

// While many messages wait the last progress of a token stands for those before it. It stays
// before the answer, and other notifications stay where they are.
func TestProgressOfOneTokenIsSentOnceWhenManyMessagesWait(t *testing.T) {
	_, o := withOutput(t, 1<<20)
	st, sink := o.stream(Config{Answers: 1, Loss: LossCancels}, share.KeyOfConnection()), &recordingSink{}
	for n := range 100 {
		m, _ := notification("progress", n)
		require.NoError(t, st.Notify(t.Context(), m, time.Second))
	}
	other, _ := notification("", 0)
	require.NoError(t, st.Notify(t.Context(), other, time.Second))
	last, _ := notification("progress", 100)
	require.NoError(t, st.Notify(t.Context(), last, time.Second))
	var answer fate
	st.Push(&Message{Kind: Answer, Frame: []byte("answer"), Delivery: &answer})
	require.NoError(t, st.Pump(sink))
	require.Equal(t, "sent", answer.said)
	n := len(sink.frames)
	require.Equal(t, []string{" 0", "progress 100", "answer"}, sink.frames[n-3:])
	require.LessOrEqual(t, n, coalesceFrom+3)
	require.Equal(t, "progress 0", sink.frames[0], "a client that reads gets each of them")
}

// A stream gives back what its messages were charged, whatever becomes of them.
func TestChargeIsRefunded(t *testing.T) {
	table, o := withOutput(t, 1<<20)
	key := share.KeyOfConnection()
	for name, end := range map[string]func(*Stream){
		"sent":    func(st *Stream) { require.NoError(t, st.Pump(&recordingSink{})) },
		"dropped": func(st *Stream) { st.Fail(mcp.DropBrokenPeer) },
	} {
		st := o.stream(Config{Answers: 1, Loss: LossCancels}, key)
		m, f := notification("", 1)
		require.NoError(t, st.Notify(t.Context(), m, time.Second))
		st.Push(&Message{Kind: Answer, Frame: make([]byte, 10_000), Delivery: &fate{}})
		bytes, callers := o.Held()
		require.Equal(t, int64(10_000+cap(m.Frame)+2*messageOverhead), bytes)
		require.Equal(t, []int{1, 1}, []int{callers, table.Len()})
		end(st)
		require.Contains(t, f.said, name)
		bytes, _ = o.Held()
		require.Zero(t, bytes)
	}
}

// A notification that finds no room in the budget waits for it, and is queued when there is some.
func TestNotificationWaitsForTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, o := withOutput(t, 1000)
		key := share.KeyOfConnection()
		first := o.stream(Config{Answers: 1, Loss: LossCancels}, key)
		large, _ := notification("", 1)
		large.Rest = make([]byte, 500)
		require.NoError(t, first.Notify(t.Context(), large, time.Second))
		second := o.stream(Config{Answers: 1, Loss: LossCancels}, key)
		result := make(chan error)
		m, f := notification("", 2)
		go func() { result <- second.Notify(t.Context(), m, time.Minute) }()
		synctest.Wait()
		queued, _, _ := second.Waiting()
		require.Empty(t, queued)
		first.Fail(mcp.DropBrokenPeer)
		require.NoError(t, <-result)
		require.Empty(t, f.said)
		second.Fail(mcp.DropBrokenPeer)
	})
}

// A stream that can be resumed loses its reader only: what it carries goes to the log.
func TestSheddingKeepsWhatCanBeResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, o := withOutput(t, 100_000)
		greedy, modest := share.KeyOfConnection(), share.KeyOfConnection()
		st := o.stream(Config{Answers: 1, Loss: LossDrops, Resumable: true}, greedy)
		st.logging.log = &sliceLog{}
		var all []*fate
		for range 4 {
			m, f := notification("", 1)
			m.Rest = make([]byte, 20_000)
			all = append(all, f)
			require.NoError(t, st.Notify(t.Context(), m, time.Second))
		}
		other := o.stream(Config{Answers: 1, Loss: LossCancels}, modest)
		m, _ := notification("", 2)
		m.Rest = make([]byte, 20_000)
		require.NoError(t, other.Notify(t.Context(), m, time.Minute))
		synctest.Wait()
		for _, f := range all {
			require.Equal(t, "stored", f.said)
		}
		require.Empty(t, st.Reason())
		other.Fail(mcp.DropBrokenPeer)
	})
}

// A stream whose messages take the memory that another stream needs ends with the reason overload. Two things happen
// then, in any order: its write fails, and its owner fails it for another reason.
func TestReasonOfAStreamThatIsCutOff(t *testing.T) {
	for name, disconnected := range map[string]func(*Stream){
		"write": func(*Stream) { time.Sleep(time.Second) },
		"owner": func(st *Stream) { st.Fail(mcp.DropBrokenPeer) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, o := withOutput(t, 100_000)
				st := o.stream(Config{Answers: 1, Loss: LossCancels}, share.KeyOfConnection())
				st.Own(ownerFunc(func() { disconnected(st) }), nil)
				var answer fate
				st.Push(&Message{Kind: Answer, Frame: make([]byte, 80_000), Delivery: &answer})
				end := make(chan error)
				go func() { end <- st.Pump(&blockedSink{late: make(chan struct{})}) }()
				synctest.Wait()
				other := o.stream(Config{Answers: 1, Loss: LossCancels}, share.KeyOfConnection())
				m, _ := notification("", 1)
				m.Rest = make([]byte, 30_000)
				require.NoError(t, other.Notify(t.Context(), m, time.Minute))
				require.Error(t, <-end)
				synctest.Wait()
				require.Equal(t, mcp.DropOverload, st.Reason())
				require.Equal(t, "dropped overload", answer.said)
				other.Fail(mcp.DropBrokenPeer)
			})
		})
	}
}

// An ownerFunc is called when the stream that it owns was lost.
type ownerFunc func()

func (f ownerFunc) Disconnect(mcp.DropReason)  { f() }
func (ownerFunc) Orphan(time.Duration, func()) {}

// A blockedSink is a sink whose writes last until their deadline has passed, which must be set to the present.
type blockedSink struct{ late chan struct{} }

func (k *blockedSink) Write(*Message) error {
	<-k.late
	return &WriteError{Reason: mcp.DropWriteTimeout, Err: os.ErrDeadlineExceeded}
}
func (k *blockedSink) Flush() error { return nil }
func (k *blockedSink) SetWriteDeadline(at time.Time) {
	if !at.IsZero() && !at.After(time.Now()) {
		close(k.late)
	}
}

// A sliceLog is a log that keeps everything.
type sliceLog struct{ events [][]byte }

func (l *sliceLog) Append(data []byte, _, _ bool) (string, error) {
	l.events = append(l.events, data)
	return fmt.Sprint(len(l.events)), nil
}
func (l *sliceLog) Marks() bool     { return true }
func (l *sliceLog) Complete() bool  { return false }
func (l *sliceLog) Forget()         {}
func (l *sliceLog) LogAttrs() []any { return nil }

// Answers that wait for what an ended stream gives back are no more than it holds: they are not
// charged. Another one is refused at once.
func TestNoMoreWaitsThanWillBeGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 100_000
		_, o := withOutput(t, size)
		held := o.stream(Config{Answers: 1, Loss: LossDrops}, share.KeyOfConnection())
		require.True(t, held.Charge(&Message{Kind: Notification, Frame: make([]byte, size*3/4), Delivery: new(fate)}))
		held.debt.shed, o.leaving = true, held.debt.bytes // its write blocks
		refused := make(chan time.Duration, 10)
		for range cap(refused) {
			st := o.stream(Config{Answers: 1, Loss: LossDrops}, share.KeyOfConnection())
			go func() {
				began := time.Now()
				m := &Message{Kind: Answer, Frame: make([]byte, size*3/10), Delivery: new(fate)}
				require.False(t, st.Reserve(m, time.Second))
				refused <- time.Since(began)
			}()
		}
		waited := 0
		for range cap(refused) {
			if <-refused > 0 {
				waited++
			}
		}
		require.Equal(t, 2, waited)
		require.Zero(t, o.waiting)
		o.give(held, held.debt.bytes)
	})
}
