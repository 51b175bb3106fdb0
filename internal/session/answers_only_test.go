package session

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// TestAnswersOnly: on the exchange of a client that takes no event stream a notification
// is lost, which is not the handler's fault, and a call finds the session's own stream.
func TestAnswersOnly(t *testing.T) {
	inWorld(t, limits.Limits{}, func(w *world) {
		a := w.asker("work", false)
		s := w.open("session-1")
		post := func(id string) *exchange {
			x := w.exchange(1, mcp.Legacy)
			x.stream.AnswersOnly()
			in, _ := inbound(httpConn, callFrame(id, "work"))
			s.ReceiveOn(in, x.stream)
			w.settle()
			return x
		}
		x := post("1")
		require.ErrorIs(t, a.answer().err, mcp.ErrPeerGone, "there is no other stream")
		h := a.next()
		require.NoError(t, h.r.Notify(mcp.NotificationProgress, nil, "token"))
		h.finish("done")
		require.Equal(t, []string{resultFrame("1", "done")}, x.frames())

		own, _ := w.get(s)
		x = post("2")
		require.Equal(t, []string{askFrame("2")}, own.frames())
		w.tell(s, replyFrame("2", `{}`))
		require.NoError(t, a.answer().err)
		h = a.next()
		s.Close(mcp.CauseSessionDelete)
		require.ErrorIs(t, h.r.Notify(mcp.NotificationProgress, nil, ""), mcp.ErrRequestDone)
		require.Empty(t, x.frames())
		require.Equal(t, counts{
			"admitted": 2, "sent": 1, "dropped/session_gone": 1, "cancelled/session_delete": 1,
			"notification/stream_gone": 1, "notification/session_gone": 1,
		}, w.counts())
	})
}

// TestNoSubscriptionWithoutEventStream: nothing of it could reach the client.
func TestNoSubscriptionWithoutEventStream(t *testing.T) {
	inWorld(t, limits.Limits{}, func(w *world) {
		w.handle("listen", func(_ context.Context, r *Request) (mcp.Result, error) {
			return nil, r.Acknowledge(mcp.NotificationSubscriptionsAcknowledged, nil)
		})
		w.route("listen", func(rt *Route) { rt.Subscription = true })
		x := w.exchange(1, mcp.Modern)
		x.stream.AnswersOnly()
		in, _ := inbound(httpConn, modernFrame("1", "listen"))
		w.core.Receive(in, x.stream)
		require.Len(t, x.frames(), 1)
		hasError(t, x.frames()[0], "1", mcp.CodeInvalidRequest, "")
		require.Equal(t, counts{"admitted": 1, "sent": 1}, w.counts())
	})
}
