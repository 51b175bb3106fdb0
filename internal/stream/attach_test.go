package stream

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/share"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// An exchange that is ended just while it writes finishes that write if its client reads, so that the client sees the
// end of the stream and not a broken connection. One whose client does not read has a second.
func TestEndReaderLetsAWriteEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		takes, lasts time.Duration
		err          error
	}{
		"reads":          {takes: lastWrite - 1, lasts: lastWrite - 1},
		"does not read":  {takes: time.Hour, lasts: lastWrite, err: os.ErrDeadlineExceeded},
		"writes no more": {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, o := withOutput(t, 100_000)
				st := o.stream(Config{Resumable: true, Loss: LossDrops}, share.KeyOfConnection())
				st.Own(nil, marking{})
				sink := &slowSink{takes: tt.takes}
				ended := make(chan error)
				go func() { ended <- st.Pump(sink) }()
				synctest.Wait()
				began := time.Now()
				require.True(t, st.EndReader())
				err := <-ended
				require.Equal(t, tt.lasts, time.Since(began))
				require.ErrorIs(t, sink.err, tt.err)
				require.ErrorIs(t, err, mcp.ErrPeerGone, "the exchange was taken away, whatever became of its write")
				require.Equal(t, mcp.DropReason(""), st.Reason(), "the stream goes on")
				st.Fail(mcp.DropStreamGone)
			})
		})
	}
}

// The same holds for a write that begins just then. After the loss of its client an exchange writes nothing.
func TestWriteThatBeginsAfterTheEndOfItsExchange(t *testing.T) {
	for name, tt := range map[string]struct {
		end   func(*Stream)
		lasts time.Duration
	}{
		"ended": {func(st *Stream) { st.EndReader() }, lastWrite},
		"lost":  {(*Stream).Lost, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := newTestStream(Config{Resumable: true, Loss: LossDrops})
				st.logging.log, st.exchanges.writer = &sliceLog{}, firstReader
				tt.end(st)
				sink := &slowSink{deadline: make(chan time.Time, 1)}
				st.bound(sink, time.Now())
				require.Equal(t, tt.lasts, time.Until(<-sink.deadline))
				st.Fail(mcp.DropStreamGone)
			})
		})
	}
}

// A slowSink is a sink whose first write takes a while, or until its deadline.
type slowSink struct {
	takes    time.Duration
	err      error // of that write
	deadline chan time.Time
}

func (k *slowSink) Write(*Message) error {
	if k.takes == 0 {
		return nil
	}
	done := time.After(k.takes)
	k.takes, k.deadline = 0, make(chan time.Time, 1)
	var late <-chan time.Time
	for {
		select {
		case <-done:
			return nil
		case at := <-k.deadline:
			late = time.After(time.Until(at))
		case <-late:
			k.err = os.ErrDeadlineExceeded
			return &WriteError{Reason: mcp.DropWriteTimeout, Err: k.err}
		}
	}
}
func (k *slowSink) Flush() error      { return nil }
func (k *slowSink) EventStream() bool { return true }
func (k *slowSink) SetWriteDeadline(at time.Time) {
	if k.deadline != nil {
		k.deadline <- at
	}
}

// marking is an opener of logs that begin with a mark.
type marking struct{}

func (marking) Open(*Stream, bool) Log { return &sliceLog{} }
func (marking) Resumes() bool          { return true }
