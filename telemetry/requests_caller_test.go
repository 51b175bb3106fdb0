package telemetry

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// TestCallers checks that the caller with the most open requests comes first, in both forms of
// the report.
func TestCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, rigConfig{})
		held := make(chan struct{})
		r.tools["hang"] = func(context.Context, *session.Request) (mcp.Result, error) {
			<-held
			return &mcp.CallToolResult{}, nil
		}
		var sessions []*session.Session
		id := int64(0)
		defer func() {
			close(held)
			for _, s := range sessions {
				s.Finish(mcp.CauseTransportClose)
			}
		}()
		hang := func(calls int, client string, conn session.Conn) {
			s := r.core.Connect(&conn, &sink{})
			sessions = append(sessions, s)
			for range calls {
				id++
				in := call("hang")
				in.ID, in.Conn = mcp.IntID(id), &conn
				in.Meta.ClientInfo = []byte(`{"name":"` + client + `","version":"2"}`)
				s.Receive(in)
			}
		}
		hang(1, "a", session.Conn{Transport: "http", RemoteAddr: "10.0.0.1:1000", Principal: &auth.Principal{Subject: "alice"}})
		hang(3, `b\u001b[2J`, session.Conn{Transport: "http", RemoteAddr: "10.0.0.2:1000", Principal: &auth.Principal{Subject: "bob\n"}})
		hang(1, "a", session.Conn{Transport: "http", RemoteAddr: "10.0.0.1:1001", Principal: &auth.Principal{Subject: "alice"}}) // another port
		hang(1, "a", session.Conn{Transport: "http", RemoteAddr: "10.0.0.1:1002", Principal: &auth.Principal{Subject: "eve"}})   // another principal
		synctest.Wait()
		time.Sleep(500 * time.Millisecond)

		rec := httptest.NewRecorder()
		r.tel.RequestsHandler().ServeHTTP(rec, httptest.NewRequest("GET", "/debug/requests", nil))
		var rep report.Requests
		require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &rep))
		open := func(requests int, client, principal, remote string) report.Caller {
			return report.Caller{Client: client, ClientVersion: "2", Principal: principal, Remote: remote, Requests: requests, OldestAgeSeconds: 0.5}
		}
		require.Equal(t, []report.Caller{
			open(3, "b\ufffd[2J", "bob\ufffd", "10.0.0.2"), open(2, "a", "alice", "10.0.0.1"), open(1, "a", "eve", "10.0.0.1"),
			{Principal: "alice", Remote: "10.0.0.1", Sessions: 2}, // byte streams whose client has not introduced itself
			{Principal: "bob\ufffd", Remote: "10.0.0.2", Sessions: 1},
			{Principal: "eve", Remote: "10.0.0.1", Sessions: 1},
		}, rep.Callers)
		require.Zero(t, rep.CallersLeftOut)

		var text strings.Builder
		rep.WriteText(&text)
		require.Regexp(t, `(?m)^CALLER +PRINCIPAL +FROM +REQUESTS +QUEUED +OLDEST +SUBSCRIPTIONS +SESSIONS\nb.\[2J 2 +bob. +10\.0\.0\.2 +3 +0 +500ms +0 +0\na 2 +alice +10\.0\.0\.1 +2 +0 +500ms +0 +0$`, text.String())
	})
}

// TestCallersAreBounded checks that the list is short however many names clients send, and that
// it has the number of missing ones.
func TestCallersAreBounded(t *testing.T) {
	by := callers{}
	for i := range 50 {
		row := by.of(&Info{}, fmt.Sprint("client ", i), "")
		row.Requests, row.Queued = i, i/2
	}
	rows, left := by.top()
	require.Len(t, rows, maxCallers)
	require.Equal(t, 30, left)
	require.Equal(t, report.Caller{Client: "client 49", Requests: 49, Queued: 24}, rows[0])
	var text strings.Builder
	(&report.Requests{Callers: rows, CallersLeftOut: left}).WriteText(&text)
	require.Contains(t, text.String(), "\nand 30 callers with less\n")
}
