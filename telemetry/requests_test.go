package telemetry

import (
	"context"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// hanging is a rig with one request that was cancelled and does not return.
func hanging(t *testing.T) (r *rig, release func()) {
	r = newRig(t, rigConfig{})
	held := make(chan struct{})
	r.tools["hang"] = func(context.Context, *session.Request) (mcp.Result, error) {
		<-held
		return &mcp.CallToolResult{}, nil
	}
	s := r.core.Connect(pipeConn, &sink{})
	in := call("hang")
	in.Conn = pipeConn
	in.Meta.ClientInfo = []byte(`{"name":"evil\u001b[2Jclient","version":"1"}`)
	s.Receive(in)
	synctest.Wait()
	time.Sleep(300 * time.Millisecond)
	s.Receive(&session.Inbound{Conn: pipeConn, Envelope: wire.Envelope{
		Kind: wire.Notification, Method: mcp.NotificationCancelled,
		Cancel: &wire.Cancel{HasRequestID: true, RequestID: mcp.IntID(7), RequestIDOK: true, Reason: "bored"},
	}})
	synctest.Wait()
	time.Sleep(200 * time.Millisecond)
	return r, func() {
		close(held)
		s.Finish(mcp.CauseTransportClose)
	}
}

func TestRequestsJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, release := hanging(t)
		rec := httptest.NewRecorder()
		r.tel.RequestsHandler().ServeHTTP(rec, httptest.NewRequest("GET", "/debug/requests", nil))
		require.Equal(t, "application/json", rec.Header().Get("Content-Type"))
		var rep report.Requests
		require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &rep))
		require.Len(t, rep.Requests, 1)
		row := rep.Requests[0]
		require.Len(t, row.TraceID, 32)
		require.InDelta(t, 0.5, row.AgeSeconds, 0.001)
		require.InDelta(t, 0.5, row.DeadlineSeconds, 0.001)
		require.InDelta(t, 0.2, row.CancelledForSeconds, 0.001)
		require.Regexp(t, `^r\d+$`, row.Key)
		row.Key = ""
		row.TraceID, row.SpanID, row.AgeSeconds, row.DeadlineSeconds, row.CancelledForSeconds = "", "", 0, 0, 0
		require.Equal(t, report.Request{
			Session: "stdio", ID: "7", Method: "tools/call", Tool: "hang", State: "cancelled", In: "handler",
			CancelCause: "client_cancel", CancelDetail: "bored", Client: "evil\ufffd[2Jclient", ClientVersion: "1",
			ProtocolVersion: "2026-07-28", Transport: "stdio",
		}, row)
		require.Equal(t, map[string]int{
			"queued": 0, "running": 0, "blocked": 0, "writing": 0, "cancelled": 1, "listening": 0,
		}, rep.InFlight)
		require.EqualValues(t, 1, rep.Totals.Cancelled["client_cancel"])
		require.EqualValues(t, 1, rep.Totals.Dropped["cancelled"])
		require.Contains(t, rep.Totals.Dropped, "write_timeout")
		require.EqualValues(t, 1, rep.Totals.Admitted)
		require.Len(t, rep.Sessions, 1)
		require.Equal(t, 1, rep.Sessions[0].Requests)
		release()
	})
}

func TestRequestsText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, release := hanging(t)
		for _, req := range []string{"/debug/requests?format=text", "/debug/requests"} {
			httpReq := httptest.NewRequest("GET", req, nil)
			httpReq.Header.Set("Accept", "text/plain")
			rec := httptest.NewRecorder()
			r.tel.RequestsHandler().ServeHTTP(rec, httpReq)
			require.Equal(t, "text/plain; charset=utf-8", rec.Header().Get("Content-Type"))
			text := rec.Body.String()
			require.Regexp(t, `(?m)^500ms +cancelled +tools/call +hang +7 +evil.\[2Jclient 1 +stdio +stdio +500ms +client_cancel 200ms ago +[0-9a-f]{32} +r\d+$`, text)
			require.Contains(t, text, "cancelled: client_cancel 1\n")
			require.Contains(t, text, "rejected: none\n")
		}
		release()
	})
}

// TestRequestsAreSorted checks that the oldest request comes first.
func TestRequestsAreSorted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{})
		held := make(chan struct{})
		r.tools["hang"] = func(context.Context, *session.Request) (mcp.Result, error) {
			<-held
			return &mcp.CallToolResult{}, nil
		}
		s := r.core.Connect(pipeConn, &sink{})
		for i := range 20 {
			in := call("hang")
			in.ID = mcp.IntID(int64(i))
			s.Receive(in)
			time.Sleep(time.Millisecond)
		}
		rep := r.tel.report()
		require.Len(t, rep.Requests, 20)
		for i, row := range rep.Requests {
			require.Equal(t, strconv.Itoa(i), row.ID)
		}
		close(held)
		s.Finish(mcp.CauseTransportClose)
	})
}

// TestOutbound checks that requests to a client are shown and counted.
func TestOutbound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{})
		r.tools["ask"] = func(ctx context.Context, q *session.Request) (mcp.Result, error) {
			_, err := q.Ask(ctx, "roots/list", []byte("{}"))
			return nil, err
		}
		s := r.core.Connect(pipeConn, &sink{})
		s.Initialize(&session.Peer{Version: mcp.LatestLegacyVersion})
		in := call("ask")
		in.Era, in.Version = mcp.Legacy, ""
		s.Receive(in)
		synctest.Wait()
		rep := r.tel.report()
		require.Len(t, rep.Outbound, 1)
		require.Equal(t, rep.Requests[0].TraceID, rep.Outbound[0].TraceID)
		row := rep.Outbound[0]
		row.TraceID = ""
		require.Equal(t, report.Outbound{Session: "stdio", ID: "1", Method: "roots/list", RequestID: "7", Tool: "ask"}, row)
		var text strings.Builder
		rep.WriteText(&text)
		require.Regexp(t, `(?m)^0s +roots/list +1 +- +stdio +7 +ask +[0-9a-f]{32}$`, text.String())
		families := gather(t, r.tel.Registry())
		require.EqualValues(t, 1, value(families, MetricPendingOutbound))
		require.EqualValues(t, 1, value(families, MetricRequestsInFlight, "state", "blocked"))
		s.Close(mcp.CauseSessionDelete)
		<-s.Done()
		require.EqualValues(t, 0, value(gather(t, r.tel.Registry()), MetricPendingOutbound))
	})
}

func TestRequestsMethod(t *testing.T) {
	rec := httptest.NewRecorder()
	Disabled().RequestsHandler().ServeHTTP(rec, httptest.NewRequest("POST", "/debug/requests", nil))
	require.Equal(t, 405, rec.Code)
	require.Equal(t, "GET, HEAD", rec.Header().Get("Allow"))
}
