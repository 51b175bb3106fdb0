package session

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/rates"
	"github.com/vitrine-mcp/vitrine/internal/resume"
	"github.com/vitrine-mcp/vitrine/internal/share"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/store"
)

// A provocation reaches one limit.
type provocation struct {
	limits  limits.Limits
	provoke func(w *world)
}

// provocations are for the limits that the core watches itself.
var provocations = map[string]provocation{
	limits.NameFrameBytes: {limits.Limits{MaxFrameBytes: 10}, func(w *world) { w.malformed(callFrame("1", "work")) }},
	limits.NameDepth:      {limits.Limits{MaxDepth: 2}, func(w *world) { w.malformed(`{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":[[]]}}`) }},
	limits.NameBatch: {limits.Limits{MaxBatch: 1}, func(w *world) {
		_, err := wire.SplitBatch([]byte(`[1,2]`), w.core.limits.Wire())
		w.connect(true).s.Malformed(err.(*wire.Error))
	}},
	limits.NameInFlight: {limits.Limits{MaxInFlight: 1, MaxQueue: 1}, func(w *world) {
		g, p := w.gate("work", false), w.connect(true)
		p.sink.on(blockUntil(nil))
		for i := range 2 { // settled, but in flight while nobody reads the answers
			p.call(fmt.Sprint(i), "work")
			g.next().finish("unread")
			w.settle()
		}
		p.call("2", "work")
	}},
	limits.NameQueue:        {limits.Limits{MaxInFlight: 1, MaxQueue: 1}, func(w *world) { w.calls(w.connect(true), 3) }},
	limits.NameQueueSession: {limits.Limits{MaxInFlight: 1, MaxQueuePerSession: 1}, func(w *world) { w.calls(w.connect(true), 3) }},
	limits.NameQueueWait: {limits.Limits{MaxInFlightTotal: 1, MaxQueueWait: 1}, func(w *world) {
		g := w.gate("work", false)
		for i := range 3 {
			w.post(nil, modernFrame(fmt.Sprint(i), "work"))
			w.settle()
		}
		time.Sleep(time.Second)
		for range 2 { // another one is late
			g.next().finish("done")
		}
	}},
	limits.NameTurns: {limits.Limits{MaxTurns: 1, RequestTimeout: time.Millisecond}, func(w *world) {
		caller := w.core.Caller(httpConn)
		defer caller.Release()
		var held, waiting share.Turn
		require.NoError(w.t, w.core.TakeTurn(w.t.Context(), &held, caller))
		require.ErrorIs(w.t, w.core.TakeTurn(w.t.Context(), &waiting, caller), share.ErrNoTurn)
		held.Give()
	}},
	limits.NameUnread: {limits.Limits{MaxUnread: 1}, func(w *world) {
		g := w.gate("work", false)
		x := w.post(nil, modernFrame("1", "work"))
		x.sink.on(blockUntil(nil))
		g.next().finish("unread")
		w.settle()
		w.post(nil, modernFrame("1", "work"))
	}},
	limits.NameSessions: {limits.Limits{MaxSessions: 1}, func(w *world) {
		w.calls(nil, 0)
		w.post(w.open("busy"), callFrame("1", "work"))
		_, _, err := w.core.Open(httpConn, "another")
		require.NotNil(w.t, err)
	}},
	limits.NameSubscriptions: {limits.Limits{MaxSubscriptions: 1}, func(w *world) {
		w.calls(nil, 0)
		w.route("work", func(rt *Route) { rt.Subscription = true })
		w.post(nil, modernFrame("1", "work"))
		w.post(nil, modernFrame("1", "work"))
	}},
	limits.NameRunningTasks: {limits.Limits{MaxRunningTasks: 1}, func(w *world) {
		g := w.gate("work", false)
		w.connect(true).call("1", "work")
		h := g.next()
		running, _ := w.core.Detach(h.ctx, h.r, "first", time.Now().Add(time.Minute))
		_, err := w.core.Detach(h.ctx, h.r, "second", time.Now().Add(time.Minute))
		require.NotNil(w.t, err)
		running.Done(DetachedEnd{})
		h.finish("done")
	}},
	limits.NameRates: {limits.Limits{}, func(w *world) {
		require.NoError(w.t, w.core.SetRates([]rates.Rule{{Name: "x", Requests: 1, Window: time.Hour}}))
		w.calls(w.connect(true), 2)
	}},
	limits.NameRateBuckets: {limits.Limits{MaxRateBuckets: 1}, func(w *world) {
		require.NoError(w.t, w.core.SetRates([]rates.Rule{{Name: "x", Requests: 2, Window: time.Hour, Per: []string{rates.PerAddress}}}))
		w.connect(true).call("1", "work")
		w.connect(true).call("1", "work")
	}},
	limits.NameOutbound: {limits.Limits{MaxOutbound: 1}, func(w *world) {
		s := w.open("session")
		w.ask(s, w.t.Context())
		w.settle()
		_, err := s.Ask(w.t.Context(), "ping", nil)
		require.Error(w.t, err)
	}},
	limits.NameEvents:          {limits.Limits{MaxEvents: 1}, (*world).keepEvents},
	limits.NameEventBytes:      {limits.Limits{MaxEventBytes: 300}, (*world).keepEvents},
	limits.NameEventBytesTotal: {limits.Limits{MaxEventBytesTotal: 300}, (*world).keepEvents},
	limits.NameEventTimeout: {limits.Limits{}, func(w *world) {
		store := w.remember()
		store.on(resume.OpAppend, func() error {
			time.Sleep(w.core.limits.EventTimeout + time.Second)
			return context.DeadlineExceeded
		})
		g, s := w.gate("work", false), w.open("session")
		w.post(s, callFrame("1", "work"))
		h := g.next()
		h.note(1)
		time.Sleep(2 * w.core.limits.EventTimeout)
		w.settle()
		h.finish("done")
	}},
	limits.NameQueuedMessages: {limits.Limits{MaxQueuedMessages: 1}, (*world).notifyUnread},
	limits.NameNotifyTimeout:  {limits.Limits{MaxQueuedMessages: 1}, (*world).notifyUnread},
	limits.NameWriteTimeout: {limits.Limits{}, func(w *world) {
		w.notifyUnread()
		time.Sleep(w.core.limits.WriteTimeout)
	}},
	limits.NameQueuedBytes:      {limits.Limits{MaxQueuedBytes: 1}, (*world).notifyUnread},
	limits.NameQueuedBytesTotal: {limits.Limits{MaxQueuedBytesTotal: 1}, (*world).notifyUnread},
	limits.NameMalformed:        {limits.Limits{MaxConsecutiveMalformed: 1}, func(w *world) { w.malformed(`{}`) }},
	limits.NameRequestTimeout: {limits.Limits{}, func(w *world) {
		w.calls(w.connect(true), 1)
		time.Sleep(w.core.limits.RequestTimeout)
	}},
	limits.NameMaxRequestTimeout: {limits.Limits{MaxRequestTimeout: time.Second}, func(w *world) {
		w.calls(w.connect(true), 1)
		time.Sleep(time.Second)
	}},
	// The transport notices these, and tells.
	limits.NameHeaders: {limits.Limits{}, func(w *world) {
		w.core.RefuseExchange(w.t.Context(), &RefusedExchange{Reason: mcp.RefuseTooManyHeaders})
	}},
	limits.NameBodyBytes: {limits.Limits{MaxBodyBytesPending: 1}, func(w *world) {
		body := w.core.NewBody(nil)
		defer body.Release()
		require.False(w.t, body.Grow(2))
		w.core.RefuseExchange(w.t.Context(), &RefusedExchange{Reason: mcp.RefuseOverload})
	}},
	limits.NameBodyTimeout: {limits.Limits{}, func(w *world) { w.core.RefuseExchange(w.t.Context(), &RefusedExchange{Reason: mcp.RefuseBodyTimeout}) }},
}

// TestEveryLimitIsCounted reaches each limit of the table that counts, and looks at its
// counter. What is built on the core watches limits of its own: a test of the packages
// server, its schemas, and service must name them.
func TestEveryLimitIsCounted(t *testing.T) {
	elsewhere := testsOf(t, "../../server") + testsOf(t, "../../server/internal/schema") + testsOf(t, "../../service")
	for _, name := range limits.Names() {
		t.Run(name, func(t *testing.T) {
			p, ours := provocations[name]
			if !ours {
				require.True(t, strings.Contains(elsewhere, name), "nobody provokes it")
				return
			}
			inWorld(t, p.limits, func(w *world) {
				p.provoke(w)
				w.settle()
				require.NotZero(w.t, w.counts()["limit/"+name], "%v", w.counts())
			})
		})
	}
}

// testsOf returns the text of a package's tests.
func testsOf(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var all strings.Builder
	for _, path := range files {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		all.Write(text)
	}
	return all.String()
}

// malformed feeds a byte stream with a frame that is too much for the core's limits.
func (w *world) malformed(frame string) {
	_, err := wire.Decode([]byte(frame), w.core.limits.Wire())
	w.connect(true).s.Malformed(err.(*wire.Error))
}

// calls scripts a handler that goes on until its context ends, and calls it n times.
func (w *world) calls(p *peer, n int) {
	w.handle("work", func(ctx context.Context, _ *Request) (mcp.Result, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})
	for i := range n {
		p.call(fmt.Sprint(i), "work")
	}
	w.settle()
}

// keepEvents has two events kept in memory.
func (w *world) keepEvents() {
	memory := resume.NewMemory()
	memory.Bind(w.core.limits, w.core.ledger.limitReached)
	for seq := range uint64(2) {
		require.NoError(w.t, memory.Append(w.t.Context(), "session", store.Event{Stream: "1", Seq: seq + 1, Data: []byte("{}")}))
	}
}

// notifyUnread sends a peer that reads nothing more than its queue holds.
func (w *world) notifyUnread() {
	p := w.connect(true)
	p.sink.on(blockUntil(nil))
	for range 3 {
		_ = p.s.Notify(w.t.Context(), "notifications/x", nil, "")
		w.settle()
	}
}
