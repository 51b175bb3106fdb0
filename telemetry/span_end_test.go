package telemetry

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// TestCauses provokes cancellations and checks span, counter and exemplar.
func TestCauses(t *testing.T) {
	stdio := func(r *rig, provoke func(*session.Session)) {
		s := r.core.Connect(pipeConn, &sink{})
		in := call("wait")
		in.Conn = pipeConn
		s.Receive(in)
		synctest.Wait()
		provoke(s)
		r.rest()
		s.Close(mcp.CauseTransportClose)
		<-s.Done()
	}
	for _, tc := range []struct {
		cause   mcp.Cause
		provoke func(r *rig)
		drop    mcp.DropReason // or answered
		fault   bool
	}{
		{mcp.CauseClientCancel, func(r *rig) {
			stdio(r, func(s *session.Session) {
				s.Receive(&session.Inbound{Conn: pipeConn, Envelope: wire.Envelope{
					Kind: wire.Notification, Method: mcp.NotificationCancelled,
					Cancel: &wire.Cancel{HasRequestID: true, RequestID: mcp.IntID(7), RequestIDOK: true, Reason: "bored\nnow"},
				}})
			})
		}, mcp.DropCancelled, false},
		{mcp.CauseClientDisconnect, func(r *rig) {
			st := r.core.Exchange(httpConn, 1, mcp.Modern)
			r.core.Receive(call("wait"), st)
			synctest.Wait()
			st.Lost()
			r.rest()
		}, mcp.DropCancelled, false},
		{mcp.CauseTransportClose, func(r *rig) { stdio(r, func(s *session.Session) { s.EOF() }) }, "", true},
		{mcp.CauseTransportError, func(r *rig) {
			stdio(r, func(s *session.Session) { s.Fail(errPrivate) })
		}, mcp.DropBrokenPeer, true},
		{mcp.CauseSessionDelete, func(r *rig) {
			stdio(r, func(s *session.Session) { s.Close(mcp.CauseSessionDelete) })
		}, mcp.DropClosedWriter, false},
		{mcp.CauseSessionEvicted, func(r *rig) {
			stdio(r, func(s *session.Session) { s.Close(mcp.CauseSessionEvicted) })
		}, mcp.DropClosedWriter, true},
		{mcp.CauseSessionIdle, func(r *rig) {
			stdio(r, func(s *session.Session) { s.Close(mcp.CauseSessionIdle) })
		}, mcp.DropClosedWriter, false},
		{mcp.CauseServerShutdown, func(r *rig) {
			st := r.core.Exchange(httpConn, 1, mcp.Modern)
			r.core.Receive(call("wait"), st)
			synctest.Wait()
			go r.shutdown()
			_ = st.Pump(&sink{})
			r.rest()
		}, "", true},
		{mcp.CauseDeadline, func(r *rig) { r.post(call("wait"), &sink{}) }, "", true},
		{mcp.CauseOperator, func(r *rig) {
			st := r.core.Exchange(httpConn, 1, mcp.Modern)
			r.core.Receive(call("wait"), st)
			synctest.Wait()
			if _, err := r.core.EndRequest(r.core.Snapshot().Requests[0].Request.Key()); err != nil {
				t.Error(err)
			}
			_ = st.Pump(&sink{})
			r.rest()
		}, "", true},
	} {
		t.Run(string(tc.cause), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, rigConfig{limits: limits.Limits{EOFGrace: 100 * time.Millisecond}})
				r.tools["wait"] = func(ctx context.Context, _ *session.Request) (mcp.Result, error) {
					<-ctx.Done()
					time.Sleep(20 * time.Millisecond)
					return nil, context.Cause(ctx)
				}
				tc.provoke(r)
				synctest.Wait()
				s := r.span()
				attrs, events := attrsOf(s), eventsOf(s)
				require.Equal(t, string(tc.cause), attrs["vitrine.cancel.cause"])
				require.Equal(t, string(tc.cause), events["vitrine.cancelled"]["vitrine.cancel.cause"])
				if tc.cause == mcp.CauseClientCancel {
					require.Equal(t, "bored\ufffdnow", events["vitrine.cancelled"]["vitrine.cancel.detail"])
				} else {
					require.NotContains(t, events["vitrine.cancelled"], "vitrine.cancel.detail")
				}
				if tc.fault {
					require.Equal(t, string(tc.cause), attrs["error.type"])
					require.Equal(t, codes.Error, s.Status().Code)
				} else {
					require.NotContains(t, attrs, "error.type")
					require.Equal(t, codes.Unset, s.Status().Code)
				}
				families := gather(t, r.tel.Registry())
				if tc.drop == "" {
					require.Equal(t, "sent", attrs["vitrine.response.outcome"])
					require.NotContains(t, events, "vitrine.response.dropped")
				} else {
					require.Equal(t, "dropped", attrs["vitrine.response.outcome"])
					require.Equal(t, string(tc.drop), attrs["vitrine.drop.reason"])
					require.Equal(t, string(tc.drop), events["vitrine.response.dropped"]["vitrine.drop.reason"])
					requireExemplar(t, find(families, MetricResponsesDropped, map[string]string{
						"method": "tools/call", "tool": "wait", "reason": string(tc.drop),
					}).GetCounter().GetExemplar(), s.SpanContext())
				}
				requireExemplar(t, find(families, MetricRequestsCancelled, map[string]string{
					"method": "tools/call", "tool": "wait", "cause": string(tc.cause), "phase": "running",
				}).GetCounter().GetExemplar(), s.SpanContext())
				unwind := find(families, MetricCancelUnwind, map[string]string{"tool": "wait", "cause": string(tc.cause)})
				require.EqualValues(t, 1, unwind.GetHistogram().GetSampleCount())
				require.InDelta(t, 0.02, unwind.GetHistogram().GetSampleSum(), 1e-6)
				require.Equal(t, sum(families, MetricRequestsAdmitted),
					sum(families, MetricResponsesSent)+sum(families, MetricResponsesStored)+sum(families, MetricResponsesDropped))
			})
		})
	}
}

func TestWriteFailures(t *testing.T) {
	for _, reason := range []mcp.DropReason{mcp.DropBrokenPeer, mcp.DropClosedWriter, mcp.DropWriteTimeout} {
		t.Run(string(reason), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, rigConfig{})
				r.post(call("echo"), &sink{fail: brokenPipe(reason)})
				attrs := attrsOf(r.span())
				require.Equal(t, string(reason), attrs["vitrine.drop.reason"])
				if reason == mcp.DropWriteTimeout {
					require.Equal(t, "write_timeout", attrs["error.type"])
				} else {
					require.NotContains(t, attrs, "error.type")
				}
				require.EqualValues(t, 1, value(gather(t, r.tel.Registry()), MetricResponsesDropped,
					"reason", string(reason), "tool", "echo"))
			})
		})
	}
}

func TestAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{limits: limits.Limits{AbandonGrace: 5 * time.Second}})
		release := make(chan struct{})
		r.tools["stubborn"] = func(context.Context, *session.Request) (mcp.Result, error) {
			<-release
			return &mcp.CallToolResult{}, nil
		}
		st := r.core.Exchange(httpConn, 1, mcp.Modern)
		r.core.Receive(call("stubborn"), st)
		require.NoError(t, st.Pump(&sink{})) // the answer of the deadline
		time.Sleep(10 * time.Second)
		s := r.span()
		require.Contains(t, eventsOf(s), "vitrine.handler.abandoned")
		require.Equal(t, "deadline", attrsOf(s)["error.type"])
		families := gather(t, r.tel.Registry())
		require.EqualValues(t, 1, value(families, MetricAbandonedNow))
		require.EqualValues(t, 1, value(families, MetricHandlersAbandoned, "tool", "stubborn", "cause", "deadline"))
		require.EqualValues(t, 1, value(families, MetricRequestsInFlight, "state", "cancelled"))

		close(release)
		r.rest()
		ended := r.spans.Ended()
		require.Len(t, ended, 2)
		late := ended[1]
		require.Equal(t, spanReturnedLate, late.Name())
		require.Equal(t, s.SpanContext().SpanID(), late.Links()[0].SpanContext.SpanID())
		require.InDelta(t, 10, attrsOf(late)["vitrine.cancel.unwind"], 0.01)
		families = gather(t, r.tel.Registry())
		require.EqualValues(t, 0, value(families, MetricAbandonedNow))
		require.EqualValues(t, 1, value(families, MetricOperationDuration, "gen_ai_tool_name", "stubborn"),
			"the duration is observed once")
	})
}

func TestRejections(t *testing.T) {
	t.Run("duplicate id", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, rigConfig{})
			release := make(chan struct{})
			r.tools["t"] = func(context.Context, *session.Request) (mcp.Result, error) {
				<-release
				return &mcp.CallToolResult{}, nil
			}
			s := r.core.Connect(pipeConn, &sink{})
			s.Receive(call("t"))
			synctest.Wait()
			s.Receive(call("t"))
			synctest.Wait()
			attrs := attrsOf(r.span())
			require.Equal(t, "duplicate_id", attrs["vitrine.reject.reason"])
			require.Equal(t, "-32600", attrs["rpc.response.status_code"])
			require.NotContains(t, attrs, "error.type")
			require.NotContains(t, attrs, "vitrine.queue.wait")
			close(release)
			s.Finish(mcp.CauseTransportClose)
		})
	})
	t.Run("shutting down", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, rigConfig{})
			r.shutdown()
			r.post(call("echo"), &sink{})
			s := r.span()
			require.Equal(t, "shutting_down", attrsOf(s)["vitrine.reject.reason"])
			require.Equal(t, "-32603", attrsOf(s)["error.type"])
			require.Equal(t, codes.Error, s.Status().Code)
			families := gather(t, r.tel.Registry())
			require.EqualValues(t, 1, value(families, MetricRequestsRejected, "reason", "shutting_down"))
			require.EqualValues(t, 1, value(families, MetricOperationDuration, "error_type", "-32603"))
		})
	})
}
