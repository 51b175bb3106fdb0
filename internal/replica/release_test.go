package replica

import (
	"bytes"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/seal"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/store"
)

// In these tests a replica of another release has written what has another format. Both releases run at the same time
// while one replaces the other.

// A joined is a link with a session that other replicas may serve, too.
type joined struct {
	*Link
	shared  *store.Memory
	session *session.Session
	changed []Change
	missed  atomic.Int64
}

func join(t *testing.T) *joined {
	t.Helper()
	ring, err := seal.NewRing("test", [][]byte{append(bytes.Repeat([]byte{1}, 31), 2)})
	require.NoError(t, err)
	j := &joined{shared: new(store.Memory)}
	core := session.New(session.Config{Logger: slog.New(slog.DiscardHandler)})
	core.SealSessions(ring, func(*session.Session) {})
	j.Link = New(Config{
		Store: j.shared.Store(), Core: core, Logger: slog.New(slog.DiscardHandler), Timeout: time.Second, MaxPending: 10,
		Changed: func(c Change) { j.changed = append(j.changed, c) }, Missed: func() { j.missed.Add(1) },
	})
	synctest.Wait()
	require.EqualValues(t, 1, j.missed.Swap(0), "it begins to listen")
	core.ServeElsewhere(j.Link, func(*session.Session, session.SharedState) {})
	s, _, refused := core.Open(&session.Conn{Transport: "http"}, "id")
	require.Nil(t, refused)
	s.Initialize(&session.Peer{Version: mcp.Version20251125})
	require.NotEmpty(t, s.HandOut())
	s.Initialized()
	j.session = s
	synctest.Wait()
	return j
}

func (j *joined) end() {
	j.session.Close(mcp.CauseServerShutdown)
	<-j.session.Done()
	j.Close()
}

// deliver publishes an envelope of another replica.
func (j *joined) deliver(t *testing.T, e envelope) {
	t.Helper()
	e.From = "other"
	message, err := json.Marshal(e)
	require.NoError(t, err)
	require.NoError(t, j.shared.Publish(t.Context(), sessionsChannel, message))
	synctest.Wait()
}

// A message of another release is counted as unknown, and nothing comes of it. Those of this release arrive after it.
func TestEnvelopeOfAnotherFormat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := join(t)
		defer j.end()
		before := j.Info().Signals
		for n, other := range []int{format - 1, format + 1} {
			j.deliver(t, envelope{Format: other, Change: &Change{Name: "other"}})
			j.deliver(t, envelope{Format: other, State: &stateSignal{Session: "id", Ends: time.Now().Add(time.Hour), State: session.SharedState{Revision: 9, Ended: true}}})
			require.EqualValues(t, 2*(n+1), j.Info().Signals[session.SignalUnknown]-before[session.SignalUnknown])
		}
		require.Empty(t, j.changed)
		require.Equal(t, before[session.SignalReceived], j.Info().Signals[session.SignalReceived])
		require.Len(t, j.Core.SharedSessions(), 1, "the session goes on")
		j.deliver(t, envelope{Format: format, Change: &Change{Name: "ours"}})
		require.Equal(t, []Change{{Name: "ours"}}, j.changed)
	})
}

// What another release has written of a session stays as it is. The session goes on, what its client changes holds at
// this replica, and a recovery comes to its end.
func TestStateOfAnotherFormat(t *testing.T) {
	for name, written := range map[string]string{
		"a later format": `{"v":2,"revision":{"of":"other kind"},"ended":true}`, "none that is known": `{"v":2`,
		"a later format of the same form": `{"v":2,"revision":9,"ended":true,"logLevel":"error"}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := join(t)
				defer j.end()
				write := func(value string, life time.Duration) {
					t.Helper()
					require.NoError(t, j.shared.Update(t.Context(), sessionKey("id"), func([]byte) ([]byte, time.Duration, error) { return []byte(value), life, nil }))
				}
				write(written, time.Hour)
				_, err := j.State(t.Context(), "id")
				require.ErrorIs(t, err, errFormat)
				_, err = j.Change(t.Context(), "id", time.Now().Add(time.Hour), func(*session.SharedState) { t.Error("it is changed") })
				require.ErrorIs(t, err, errFormat)

				j.session.Share(func(st *session.SharedState) { st.LogLevel = mcp.LogDebug })
				j.hadGap()
				time.Sleep(10 * longestPause)
				require.EqualValues(t, 1, j.missed.Load())
				require.True(t, j.Connected())
				require.Len(t, j.Core.SharedSessions(), 1, "the session goes on")
				now, err := j.shared.Get(t.Context(), sessionKey("id"))
				require.NoError(t, err)
				require.Equal(t, written, string(now))

				write("", 0) // which removes it
				j.hadGap()
				time.Sleep(longestPause)
				st, err := j.State(t.Context(), "id")
				require.NoError(t, err)
				require.Equal(t, mcp.LogDebug, st.LogLevel, "what waited is shared when it can be")
			})
		})
	}
}
