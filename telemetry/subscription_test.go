package telemetry

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// subscriptions adds a handler that acknowledges after 20 ms and ends politely.
func (r *rig) subscriptions() {
	r.other[mcp.MethodSubscriptionsListen] = func(ctx context.Context, q *session.Request) (mcp.Result, error) {
		time.Sleep(20 * time.Millisecond)
		if err := q.Acknowledge(mcp.NotificationSubscriptionsAcknowledged, []byte(`{}`)); err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-q.Ending():
			return &mcp.EmptyResult{}, nil
		case <-time.After(48 * time.Hour):
			return nil, errors.New("something broke")
		}
	}
}

func listen() *session.Inbound {
	return &session.Inbound{
		Era: mcp.Modern, Version: mcp.LatestVersion, Conn: httpConn,
		Envelope: wire.Envelope{Kind: wire.Request, ID: mcp.IntID(7), Method: mcp.MethodSubscriptionsListen},
	}
}

// A subscription is an ordinary operation until it is acknowledged. After that its duration is
// measured apart, by outcome, and its span stays open until the end.
func TestSubscription(t *testing.T) {
	for _, tc := range []struct {
		end  mcp.SubscriptionEnd
		life time.Duration
		how  func(r *rig, st *stream.Stream)
	}{
		{mcp.EndClientDisconnect, time.Hour, func(_ *rig, st *stream.Stream) { st.Lost() }},
		{mcp.EndServerShutdown, time.Hour, func(r *rig, _ *stream.Stream) { r.shutdown() }},
		{mcp.EndError, 48 * time.Hour, func(*rig, *stream.Stream) { time.Sleep(47*time.Hour + time.Second) }},
	} {
		t.Run(string(tc.end), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, rigConfig{})
				r.subscriptions()
				st := r.core.Exchange(httpConn, 1, mcp.Modern)
				r.core.Receive(listen(), st)
				go func() { _ = st.Pump(&sink{}) }()
				time.Sleep(20 * time.Millisecond)
				synctest.Wait()

				families := gather(t, r.tel.Registry())
				operation := find(families, MetricOperationDuration, map[string]string{"mcp_method_name": mcp.MethodSubscriptionsListen})
				require.EqualValues(t, 1, operation.GetHistogram().GetSampleCount(), "recorded at the acknowledgement")
				require.InDelta(t, 0.02, operation.GetHistogram().GetSampleSum(), 1e-6)
				require.EqualValues(t, 1, value(families, MetricSubscriptionsActive))
				require.EqualValues(t, 1, value(families, MetricRequestsInFlight, "state", "listening"))
				require.Empty(t, r.spans.Ended())

				time.Sleep(time.Hour)
				require.Zero(t, value(gather(t, r.tel.Registry()), MetricOldestRequestAge))
				tc.how(r, st)
				synctest.Wait()
				families = gather(t, r.tel.Registry())
				require.Zero(t, value(families, MetricSubscriptionsActive))
				require.EqualValues(t, 1, value(families, MetricOperationDuration, "mcp_method_name", mcp.MethodSubscriptionsListen),
					"and not again at the end")
				for _, end := range mcp.SubscriptionEnds() {
					life := find(families, MetricSubscriptionDuration, map[string]string{"end": string(end)}).GetHistogram()
					if end != tc.end {
						require.Zero(t, life.GetSampleCount(), end)
						continue
					}
					require.EqualValues(t, 1, life.GetSampleCount())
					require.InDelta(t, tc.life.Seconds(), life.GetSampleSum(), 1e-6)
				}
				require.Contains(t, eventsOf(r.span()), eventAcknowledged)
				r.shutdown()
			})
		})
	}
}

// A request that ends before its acknowledgement is not counted as a subscription.
func TestSubscriptionRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{})
		r.other[mcp.MethodSubscriptionsListen] = func(context.Context, *session.Request) (mcp.Result, error) {
			return nil, mcp.NewError(mcp.CodeInvalidParams, "no filter")
		}
		r.post(listen(), &sink{})
		families := gather(t, r.tel.Registry())
		require.EqualValues(t, 1, value(families, MetricOperationDuration,
			"mcp_method_name", mcp.MethodSubscriptionsListen, "rpc_response_status_code", "-32602"))
		for _, end := range mcp.SubscriptionEnds() {
			require.Zero(t, value(families, MetricSubscriptionDuration, "end", string(end)))
		}
	})
}

// The report shows subscriptions separately, without a deadline.
func TestReportOfSubscriptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{})
		r.subscriptions()
		st := r.core.Exchange(httpConn, 1, mcp.Modern)
		r.core.Receive(listen(), st)
		go func() { _ = st.Pump(&sink{}) }()
		time.Sleep(time.Hour)
		rep := r.tel.report()
		require.Empty(t, rep.Requests)
		require.Len(t, rep.Subscriptions, 1)
		row := rep.Subscriptions[0]
		require.Len(t, row.TraceID, 32)
		require.Regexp(t, `^r\d+$`, row.Key)
		row.TraceID, row.SpanID, row.Key = "", "", ""
		require.Equal(t, report.Request{
			ID: "7", Method: mcp.MethodSubscriptionsListen, State: "listening", AgeSeconds: 3600,
			ProtocolVersion: "2026-07-28", Transport: "http", Remote: "192.0.2.7:4711",
		}, row)
		require.Equal(t, 1, rep.InFlight["listening"])
		require.Zero(t, rep.OldestAgeSeconds)
		require.Equal(t, []report.Caller{{Remote: "192.0.2.7", Subscriptions: 1}}, rep.Callers)
		var text strings.Builder
		rep.WriteText(&text)
		require.Contains(t, text.String(), "in flight: 1 (")
		require.Regexp(t, `(?m)^1h0m0s +listening +7 +- +http +192.0.2.7:4711 +- +- +[0-9a-f]{32} +r\d+$`, text.String())
		r.shutdown()
	})
}

// Each of several subscriptions that began and ended in the same seconds is among the recent requests, with its client,
// its life and its end.
func TestEndedSubscriptionsAreRecent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{})
		r.subscriptions()
		var open []*stream.Stream
		for _, client := range []string{"desk", "ide", "desk", "cli"} {
			in := listen()
			in.Meta.ClientInfo = []byte(`{"name":"` + client + `","version":"4.3.0"}`)
			st := r.core.Exchange(httpConn, 1, mcp.Modern)
			r.core.Receive(in, st)
			go func() { _ = st.Pump(&sink{}) }()
			open = append(open, st)
		}
		time.Sleep(time.Hour)
		for _, st := range open[:3] {
			st.Lost()
		}
		synctest.Wait()
		r.shutdown()

		rows := r.kept("subscription")
		require.Len(t, rows, 4)
		clients := map[string]int{}
		for _, row := range rows {
			require.Equal(t, mcp.MethodSubscriptionsListen, row.Method)
			require.Equal(t, "4.3.0", row.ClientVersion)
			require.InDelta(t, 3600, row.Seconds, 1)
			clients[row.Client+" "+row.SubscriptionEnd]++
		}
		require.Equal(t, map[string]int{"desk client_disconnect": 2, "ide client_disconnect": 1, "cli server_shutdown": 1}, clients)
		require.Empty(t, r.kept("recent"))
		rec := httptest.NewRecorder()
		tracesMux(r.tel).ServeHTTP(rec, httptest.NewRequest("GET", "/debug/traces?format=text", nil))
		require.Regexp(t, `(?m) subscription +\S+ +subscriptions/listen +- +7 +cli 4\.3\.0 +server_shutdown +`, rec.Body.String())
	})
}
