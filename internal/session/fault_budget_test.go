package session

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/resume"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// handleBig adds a handler whose result has 20 000 bytes.
func (w *world) handleBig() {
	w.handle("big", func(context.Context, *Request) (mcp.Result, error) {
		return &textResult{Text: strings.Repeat("x", 20_000)}, nil
	})
}

// postUnread lets a caller ask for something that it does not read.
func (w *world) postUnread(addr, name string) *exchange {
	w.t.Helper()
	x := w.newExchange(1, mcp.Modern)
	x.stream = w.core.Exchange(from(addr), 1, mcp.Modern)
	x.sink.on(blockUntil(nil))
	in, _ := inbound(from(addr), modernFrame("1", name))
	w.core.Receive(in, x.stream)
	x.pump(x.sink)
	w.settle()
	return x
}

// budgetE16: what waits for all readers has a bound.
var budgetE16 = []faultCell{
	{state: "budget", limits: limits.Limits{MaxQueuedBytesTotal: 100_000}, test: func(w *world) {
		w.handleBig()
		var unread []*exchange
		for range 4 {
			unread = append(unread, w.postUnread(greedyAddr, "big"))
		}
		x := w.postFrom(from(modestAddr), nil, modernFrame("1", "big"))
		require.Len(w.t, x.frames(), 1)
		require.Greater(w.t, len(x.frames()[0]), 20_000)
		ended := 0
		for _, x := range unread {
			if x.ended() {
				ended++
			}
		}
		require.Equal(w.t, 1, ended, "no more than others need")
		require.Equal(w.t, counts{"admitted": 5, "sent": 1, "dropped/overload": 1, "limit/max_queued_bytes_total": 1}, w.counts())
		w.loggedWith("WARN output.shed", "caller="+greedyAddr)
	}},
	{state: "budget-own", limits: limits.Limits{MaxQueuedBytesTotal: 100_000}, test: func(w *world) {
		w.handleBig()
		g := w.gate("work", false)
		for range 4 {
			w.postUnread(greedyAddr, "big")
		}
		x := w.postFrom(from(greedyAddr), nil, modernFrame("1", "big"))
		require.Len(w.t, x.frames(), 1)
		hasError(w.t, x.frames()[0], "1", mcp.CodeInternalError, "overload")
		require.Contains(w.t, x.frames()[0], `"limit":"max_queued_bytes_total"`)

		x = w.postFrom(from(greedyAddr), nil, modernFrame("1", "work"))
		h := g.next()
		require.NoError(w.t, h.r.Notify(mcp.NotificationProgress, fmt.Appendf(nil, `{"n":%q}`, strings.Repeat("x", 20_000)), ""))
		h.finish("done")
		require.Equal(w.t, []string{resultFrame("1", "done")}, x.frames())
		require.Equal(w.t, counts{
			"admitted": 6, "sent": 2, "notification/queue_full": 1, "limit/max_queued_bytes_total": 2, "limit/notify_timeout": 1,
		}, w.counts())
	}},
	{state: "budget-legacy", limits: limits.Limits{MaxQueuedBytesTotal: 100_000}, test: func(w *world) {
		w.handleBig()
		g := w.gate("work", false)
		s := w.openOver(from(greedyAddr), "session")
		x := w.postFrom(from(greedyAddr), s, callFrame("1", "work"))
		h := g.next()
		x.sink.on(blockUntil(nil))
		for range 4 {
			require.NoError(w.t, h.r.Notify(mcp.NotificationMessage, fmt.Appendf(nil, `{"n":%q}`, strings.Repeat("x", 20_000)), ""))
		}
		other := w.postFrom(from(modestAddr), nil, modernFrame("1", "big"))
		require.Len(w.t, other.frames(), 1)
		require.Empty(w.t, h.cause(), "a legacy request goes on")
		h.finish("done")
		w.settle()
		require.Equal(w.t, counts{
			"admitted": 2, "sent": 1, "dropped/overload": 1, "notification/overload": 4, "limit/max_queued_bytes_total": 1,
		}, w.counts())
	}},
}

// A large message counts until its request is over, whatever it came over.
func TestMessageIsChargedUntilItsRequestIsOver(t *testing.T) {
	frame := strings.Replace(callFrame("1", "work"), "{", "{"+strings.Repeat(" ", 10_000), 1)
	inWorld(t, limits.Limits{MaxBodyBytesPending: 30_000}, func(w *world) {
		g := w.gate("work", false)
		p := w.connect(true)
		p.send(frame)
		h := g.next()
		bytes, callers := w.core.bodies.Used()
		require.Equal(t, []int64{int64(len(frame)), 1}, []int64{bytes, int64(callers)})
		p.send(strings.Replace(frame, `"id":1`, `"id":2`, 1))
		other := g.next()
		p.send(strings.Replace(frame, `"id":1`, `"id":3`, 1))
		require.Len(t, p.frames(), 1)
		hasError(t, p.frames()[0], "3", mcp.CodeInternalError, "overload")
		require.Contains(t, p.frames()[0], `"limit":"max_body_bytes_pending"`)
		h.finish("done")
		other.finish("done")
		time.Sleep(time.Millisecond)
		bytes, _ = w.core.bodies.Used()
		require.Zero(t, bytes)
		require.Equal(t, counts{"admitted": 2, "sent": 2, "rejected/overload": 1, "limit/max_body_bytes_pending": 1}, w.counts())
	})
}

// Callers without a principal are told apart by their addresses in the store of events, too.
func TestEventsOfOneAddressDoNotPushOutThoseOfAnother(t *testing.T) {
	inWorld(t, limits.Limits{MaxEventBytesTotal: 20_000}, func(w *world) {
		w.core = New(Config{Dispatcher: w, Limits: w.core.limits, Events: resume.NewMemory()})
		g := w.gate("work", false)
		store := func(addr, id string, size int) (*Session, *exchange) {
			s := w.openOver(from(addr), id)
			h, x := w.streaming(s, g, "1")
			x.vanish()
			h.finish(strings.Repeat("x", size))
			w.settle()
			return s, x
		}
		modest, lost := store(modestAddr, "modest", 1000)
		for i := range 20 {
			store(greedyAddr, fmt.Sprint("greedy-", i), 2000)
		}
		rest := w.resume(modest, lost.last()).events()
		require.Contains(t, rest[len(rest)-1], `"result"`)
		require.NotZero(t, w.counts()["limit/max_event_bytes_total"])
	})
}
