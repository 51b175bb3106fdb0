package resume

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// openSession is a session that is open for a client of the newest legacy revision.
type openSession struct{}

func (openSession) LogAttrs() []any               { return []any{"session", "session"} }
func (openSession) Tell(string, Signal)           {}
func (openSession) Revision() (mcp.Version, bool) { return mcp.Version20251125, true }

func newTestLogs() (*Logs, *Memory) {
	memory, ignore := NewMemory(), func(string) {}
	l, logger := limits.Limits{}.WithDefaults(), slog.New(slog.DiscardHandler)
	inline := func(f func()) { f() }
	s := &Store{
		Events: memory, Limits: l, Logger: logger, LimitReached: ignore,
		Failed: func(Operation) {}, Fetched: func(int) {}, Expired: func(mcp.ExpireReason, []any) {}, Go: inline,
	}
	host := &stream.Host{
		Limits: l, Logger: logger, LimitReached: ignore, Go: inline, Written: func(any, int, time.Duration) {},
	}
	return s.NewLogs("id", "owner", openSession{}, host, stream.Config{Loss: stream.LossDrops}), memory
}

// After the end of its session nothing is stored any more.
func TestNothingIsStoredAfterTheEnd(t *testing.T) {
	logs, memory := newTestLogs()
	log := logs.Open(nil, true)
	_, err := log.Append([]byte("{}"), false, true)
	require.NoError(t, err)
	require.NotZero(t, memory.bytes)
	logs.End(mcp.CauseSessionDelete)
	require.Zero(t, memory.bytes)
	_, err = log.Append([]byte("{}"), false, true)
	require.ErrorIs(t, err, errEnded)
	require.Zero(t, memory.bytes)
}

// A stream that is read again leaves the table when that is over, and one that has been
// replayed to its end cannot be resumed.
func TestStreamsAreForgotten(t *testing.T) {
	logs, _ := newTestLogs()
	st := stream.New(logs.host, stream.Config{Answers: 1, Loss: stream.LossDrops, Resumable: true})
	st.Own(nil, logs)
	st.EventsOnly()
	st.Push(&stream.Message{Kind: stream.Answer, Frame: []byte("{}"), Delivery: stream.Unobserved})
	require.NoError(t, st.Pump(&nowhere{}))
	require.Empty(t, logs.byKey)

	r, err := logs.Resume(t.Context(), logs.events.id("1", 1))
	require.NoError(t, err)
	require.Len(t, logs.byKey, 1)
	require.NoError(t, r.Pump(&nowhere{}))
	r.Close()
	require.Empty(t, logs.byKey)
	_, err = logs.Resume(t.Context(), logs.events.id("1", 2))
	require.ErrorIs(t, err, ErrEventUnknown)
	require.Empty(t, logs.byKey)
}

// nowhere is a sink to which every write succeeds.
type nowhere struct{}

func (*nowhere) Write(*stream.Message) error { return nil }
func (*nowhere) Flush() error                { return nil }
func (*nowhere) SetWriteDeadline(time.Time)  {}
