package streamable_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/share"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/internal/streamable"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// elsewhere is the connection of another caller.
var elsewhere = &session.Conn{RemoteAddr: "192.0.2.7:1"}

// turnsOf returns the state of the turns of a core.
func turnsOf(t *testing.T, core *session.Core) share.Usage {
	t.Helper()
	for _, s := range core.Snapshot().Shares {
		if s.Limit == limits.NameTurns {
			return s.Usage
		}
	}
	t.Fatal("the snapshot does not have the turns")
	return share.Usage{}
}

// newCall returns a modern call, without a connection.
func newCall(ctx context.Context, name string, body io.Reader) *http.Request {
	if body == nil {
		body = strings.NewReader(modern(1, name))
	}
	r := httptest.NewRequestWithContext(ctx, "POST", "http://localhost/mcp", body)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for _, h := range modernHeaders("tools/call", name) {
		setHeader(r, h)
	}
	return r
}

// Nothing that waits holds a turn: a server with one turn serves others meanwhile, without a wait.
func TestNothingThatWaitsHoldsATurn(t *testing.T) {
	for _, tt := range []struct {
		name  string
		rule  bool // of admission, which waits for calls of "rule"
		call  string
		body  bool // it never comes
		first string
	}{
		{name: "a handler", call: "wait"},
		{name: "a call without a slot", first: "wait", call: "echo"},
		{name: "a rule of admission", rule: true, call: "rule"},
		{name: "a body", call: "echo", body: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := limits.Limits{MaxTurns: 1}
				if tt.first != "" {
					l.MaxInFlightTotal = 1
				}
				cfg, end := session.Config{Limits: l}, make(chan struct{})
				if tt.rule {
					cfg.Admission = func(_ context.Context, r *session.Request) error {
						if r.Name == "rule" {
							<-end
						}
						return nil
					}
				}
				f := newFakeOf(t, cfg)
				h := streamable.New(f.Core, streamable.Config{})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				serve := func(name string, body io.Reader) {
					go h.ServeHTTP(httptest.NewRecorder(), newCall(ctx, name, body))
					synctest.Wait()
				}
				if tt.first != "" {
					serve(tt.first, nil)
				}
				var body io.Reader
				if tt.body {
					r, w := io.Pipe()
					defer w.Close()
					body = r
				}
				serve(tt.call, body)
				require.Equal(t, share.Usage{Size: 1}, turnsOf(t, f.Core))
				if tt.first == "" {
					w := httptest.NewRecorder()
					h.ServeHTTP(w, newCall(t.Context(), "echo", nil))
					require.Equal(t, 200, w.Code, w.Body)
				}
				require.Zero(t, f.Core.Snapshot().Turns)
				cancel()
				close(end)
				time.Sleep(stream.QuickAnswer) // until then nobody looks whether the peer has gone
				synctest.Wait()
			})
		})
	}
}

// A client that hangs up before its turn leaves the queue, and its call is not admitted.
func TestHangUpBeforeTheTurnIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, limits.Limits{MaxTurns: 1})
		h := streamable.New(f.Core, streamable.Config{})
		var held share.Turn
		caller := f.Core.Caller(elsewhere)
		defer caller.Release()
		require.NoError(t, f.Core.TakeTurn(t.Context(), &held, caller))
		ctx, hangUp := context.WithCancel(t.Context())
		left := make(chan struct{})
		go func() {
			defer close(left)
			h.ServeHTTP(httptest.NewRecorder(), newCall(ctx, "echo", nil))
		}()
		synctest.Wait()
		require.Equal(t, 1, turnsOf(t, f.Core).Waiters)
		hangUp()
		<-left
		require.Zero(t, turnsOf(t, f.Core).Waiters)
		held.Give()
		snap := f.Core.Snapshot()
		require.Equal(t, share.Usage{Size: 1}, turnsOf(t, f.Core))
		require.EqualValues(t, 1, snap.Turns.Waits)
		require.EqualValues(t, 1, snap.Counters.ExchangesRefused[mcp.RefuseBody])
		admitted, _, _, _ := snap.Counters.Totals()
		require.Zero(t, admitted)
	})
}

// The call of a legacy client goes on although that hangs up, also before its turn.
func TestLegacyCallThatIsHungUpHasItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, limits.Limits{MaxTurns: 1})
		h := streamable.New(f.Core, streamable.Config{})
		post := func(ctx context.Context, body, session string) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(ctx, "POST", "http://localhost/mcp", strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			if session != "" {
				r.Header.Set("Mcp-Session-Id", session)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		session := post(t.Context(), legacy(0, "initialize", ""), "").Header().Get("Mcp-Session-Id")
		require.NotEmpty(t, session)
		var held share.Turn
		caller := f.Core.Caller(elsewhere)
		defer caller.Release()
		require.NoError(t, f.Core.TakeTurn(t.Context(), &held, caller))
		ctx, hangUp := context.WithCancel(t.Context())
		left := make(chan struct{})
		go func() {
			defer close(left)
			post(ctx, legacy(1, "tools/call", "echo"), session)
		}()
		synctest.Wait()
		hangUp()
		synctest.Wait()
		require.Equal(t, 1, turnsOf(t, f.Core).Waiters)
		held.Give()
		<-left
		synctest.Wait()
		admitted, _, _, _ := f.Core.Snapshot().Counters.Totals()
		require.EqualValues(t, 2, admitted)
		require.NoError(t, f.Core.Shutdown(t.Context()))
	})
}

// A message that has no turn for too long is refused, and the answer names the limit.
func TestMessageWithoutATurnIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, limits.Limits{MaxTurns: 1, RequestTimeout: 1})
		h := streamable.New(f.Core, streamable.Config{})
		var held share.Turn
		caller := f.Core.Caller(elsewhere)
		defer caller.Release()
		require.NoError(t, f.Core.TakeTurn(t.Context(), &held, caller))
		defer held.Give()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, newCall(t.Context(), "echo", nil))
		require.Equal(t, 429, w.Code)
		require.Equal(t, "1", w.Header().Get("Retry-After"))
		require.Contains(t, w.Body.String(), `"limit":"max_turns"`)
		require.EqualValues(t, 1, f.Core.Snapshot().Counters.ExchangesRefused[mcp.RefuseOverload])
		require.EqualValues(t, 1, f.Core.Snapshot().Counters.LimitsReached[limits.NameTurns])
	})
}

// A goroutine that serves one message after the other, as net/http does for a client that does not wait
// for answers, gives way to others after each.
func TestPipelinedMessagesGiveWay(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	f := newFake(t, limits.Limits{})
	h := streamable.New(f.Core, streamable.Config{})
	const messages = 1000
	var others, stop atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for stop.Load() == 0 {
			others.Add(1)
			runtime.Gosched()
		}
	}()
	for range messages {
		r := newCall(t.Context(), "echo", strings.NewReader("{}")) // which is refused without a wait
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
	stop.Store(1)
	<-ended
	require.GreaterOrEqual(t, others.Load(), int64(messages/2))
}

// With several callers a goroutine that gives way holds its turn; a caller that is alone does not. The runtime may also take the
// processor from a goroutine that holds its turn, now and then.
func TestGivingWayHoldsTheTurnBesideOthers(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	f := newFake(t, limits.Limits{})
	h := streamable.New(f.Core, streamable.Config{})
	const messages = 1000
	// seen returns how often others see a turn while messages are served.
	seen := func() (n int) {
		var stop atomic.Bool
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for !stop.Load() {
				n += turnsOf(t, f.Core).Used
				runtime.Gosched()
			}
		}()
		for range messages {
			h.ServeHTTP(httptest.NewRecorder(), newCall(t.Context(), "echo", strings.NewReader("{}")))
		}
		stop.Store(true)
		<-ended
		return n
	}
	require.Less(t, seen(), messages/10, "a lone caller")
	var turn share.Turn
	caller := f.Core.Caller(&session.Conn{RemoteAddr: "192.0.2.9:1"})
	defer caller.Release()
	require.NoError(t, f.Core.TakeTurn(t.Context(), &turn, caller))
	turn.Give()
	require.Greater(t, seen(), messages/2)
}
