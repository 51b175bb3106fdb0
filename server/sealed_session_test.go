package server_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// newReplica returns a server that seals the ids of its sessions. Its tool peer answers with what it
// knows of its client.
func newReplica(t *testing.T, opts ...server.Option) *server.Server {
	t.Helper()
	srv := newServer(t, append([]server.Option{server.WithStateKeys(stateKey(1)), byFullToken}, opts...)...)
	server.AddTool(srv, server.Tool{Name: "peer"}, func(_ context.Context, call *server.Call, _ struct{}) (string, error) {
		p := call.Peer
		return fmt.Sprintf("%s %s %s roots=%t session=%s", p.Version, p.Client.Name, p.Client.Version, p.Capabilities.Roots != nil, p.SessionID), nil
	})
	return srv
}

const callPeer = `"name":"peer","arguments":{}`

// post sends a legacy request in a session, in the process.
func post(srv *server.Server, body string, headers ...string) *httptest.ResponseRecorder {
	return send(srv, http.MethodPost, body, headers...)
}

func send(srv *server.Server, method, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://127.0.0.1/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	srv.Handler().ServeHTTP(w, r)
	return w
}

// open begins a session and returns its header.
func open(t *testing.T, srv *server.Server, headers ...string) string {
	t.Helper()
	w := post(srv, legacy(1, "initialize",
		`"protocolVersion":"2025-06-18","capabilities":{"roots":{}},"clientInfo":{"name":"ann's agent","version":"4.3"}`), headers...)
	require.Equal(t, 200, w.Code, w.Body)
	return "Mcp-Session-Id: " + w.Header().Get("Mcp-Session-Id")
}

// Any server with the keys serves a session, with what its client has agreed on, and before the client
// has said that it is initialized.
func TestSealedSessionIsServedByEachReplica(t *testing.T) {
	a, b := newReplica(t), newReplica(t)
	session := open(t, a)
	first := post(a, legacy(2, "tools/call", callPeer), session).Body.String()
	require.Contains(t, first, "2025-06-18 ann's agent 4.3 roots=true session=")
	require.NotContains(t, session, strings.TrimSuffix(strings.SplitAfter(first, "session=")[1], `"`)[:8], "the id shows nothing")

	for range 2 {
		require.Equal(t, first, post(b, legacy(2, "tools/call", callPeer), session).Body.String())
	}
	require.Equal(t, 202, post(b, notice("notifications/initialized", ""), session).Code)
	require.Less(t, len(session), 512)
}

// A server with other keys, or of another name, does not know the session.
func TestSealedSessionNeedsItsKey(t *testing.T) {
	session := open(t, newReplica(t))
	call := legacy(2, "tools/call", callPeer)
	for name, srv := range map[string]*server.Server{
		"other keys":   newReplica(t, server.WithStateKeys(stateKey(2))),
		"other name":   server.New("other", "1", server.WithStateKeys(stateKey(1)), server.WithLogger(slog.New(slog.DiscardHandler))),
		"without keys": newServer(t),
	} {
		require.Equal(t, 404, post(srv, call, session).Code, name)
	}
	rotated := newReplica(t, server.WithStateKeys(stateKey(2), stateKey(1)))
	require.Equal(t, 200, post(rotated, call, session).Code, "the old key opens")
	require.Equal(t, 404, post(newReplica(t), call, open(t, rotated)).Code, "the new key seals")

	id := strings.TrimPrefix(session, "Mcp-Session-Id: ")
	fresh := newReplica(t)
	for i := range id {
		changed := id[:i] + string('A'+(id[i]+1)%26) + id[i+1:]
		if changed != id {
			require.Equal(t, 404, post(fresh, call, "Mcp-Session-Id: "+changed).Code, "byte %d", i)
		}
	}
	require.Equal(t, 404, post(fresh, call, "Mcp-Session-Id: "+id+strings.Repeat("A", 4000)).Code)
}

// A session belongs to issuer, subject and tenant on each replica.
func TestSealedSessionBelongsToItsPrincipal(t *testing.T) {
	session := open(t, newReplica(t), "Authorization: "+annsToken)
	call := legacy(2, "tools/call", callPeer)
	for name, token := range strangers {
		logs := &logRecorder{}
		fresh := newReplica(t, server.WithLogger(slog.New(logs)))
		require.Equal(t, 404, post(fresh, call, session, "Authorization: "+token).Code, name)
		require.Len(t, logs.find("principal.foreign"), 1, name)
	}
	logs := &logRecorder{}
	fresh := newReplica(t, server.WithLogger(slog.New(logs)))
	require.Equal(t, 200, post(fresh, call, session, "Authorization: "+annRefreshed).Code)
	require.Equal(t, 404, post(fresh, call, session, "Authorization: "+strangers["another subject"]).Code, "now that it is known")
	require.Len(t, logs.find("principal.foreign"), 1)
}

// A sealed id ends at its time, although its client uses it, and where it was not known before.
func TestSealedSessionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		life := server.WithLimits(server.Limits{SessionLife: time.Hour})
		a := newReplica(t, life)
		session := open(t, a)
		call := legacy(2, "tools/call", callPeer)
		for range 6 {
			time.Sleep(10*time.Minute - time.Second)
			require.Equal(t, 200, post(a, call, session).Code)
		}
		require.Equal(t, 200, post(newReplica(t, life), call, session).Code)
		time.Sleep(6 * time.Second)
		require.Equal(t, 404, post(a, call, session).Code)
		require.Equal(t, 404, post(newReplica(t, life), call, session).Code)
		a.Close()
	})
}

// The idle time, the time for the handshake and the cap end the local object of a session, and the next
// request makes another one.
func TestLocalEndsLeaveSealedSessions(t *testing.T) {
	call := legacy(2, "tools/call", callPeer)
	synctest.Test(t, func(t *testing.T) {
		logs := &logRecorder{}
		srv := newReplica(t, server.WithLogger(slog.New(logs)),
			server.WithLimits(server.Limits{SessionIdle: time.Minute, InitializeTimeout: time.Second, MaxSessions: 1}))
		session := open(t, srv)
		time.Sleep(2 * time.Second)
		require.Len(t, logs.find("session.closed"), 1, "the handshake was not finished")
		require.Equal(t, 200, post(srv, call, session).Code)
		time.Sleep(2 * time.Minute)
		require.Len(t, logs.find("session.closed"), 2, "idle")
		require.Equal(t, 200, post(srv, call, session).Code)
		synctest.Wait()

		other := open(t, srv)
		synctest.Wait()
		require.Len(t, logs.find("session.closed"), 3, "evicted")
		for range 3 {
			require.Equal(t, 200, post(srv, call, session).Code)
			synctest.Wait() // the request is over
			require.Equal(t, 200, post(srv, call, other).Code)
			synctest.Wait()
		}
		require.Len(t, logs.find("session.adopted"), 8)
		for _, r := range logs.find("session.adopted") {
			require.NotEmpty(t, r.attrs["client"]+r.attrs["client_version"])
		}
		srv.Close()
	})
}

// A deleted session stays deleted where it was deleted.
func TestDeletedSealedSession(t *testing.T) {
	call := legacy(2, "tools/call", callPeer)
	a, b := newReplica(t), newReplica(t)
	session := open(t, a)
	require.Equal(t, 204, send(b, http.MethodDelete, "", session).Code, "of which it had no object")
	require.Equal(t, 404, post(b, call, session).Code)
	require.Equal(t, 404, send(b, http.MethodDelete, "", session).Code)
	require.Equal(t, 200, post(a, call, session).Code, "without a store the other replica does not know")
}

// Deleted sessions are remembered within max_deleted_sessions. A caller that deletes many loses its own.
func TestDeletedSessionsAreBounded(t *testing.T) {
	call := legacy(2, "tools/call", callPeer)
	srv := newReplica(t, server.WithLimits(server.Limits{MaxDeletedSessions: 3}))
	deleted := func(token string) string {
		session := open(t, srv, token)
		require.Equal(t, 204, send(srv, http.MethodDelete, "", session, token).Code)
		return session
	}
	ann, greedy := "Authorization: "+annsToken, "Authorization: "+strangers["another subject"]
	anns := deleted(ann)
	var theirs []string
	for range 5 {
		theirs = append(theirs, deleted(greedy))
	}
	require.Equal(t, 404, post(srv, call, anns, ann).Code)
	require.Equal(t, 200, post(srv, call, theirs[0], greedy).Code, "its own session, of which too many were deleted")
	require.Equal(t, 404, post(srv, call, theirs[4], greedy).Code)
}

// A full server answers a session that it has no object of with 429, and a server that drains with 503:
// the session is not lost.
func TestSealedSessionWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		session := open(t, newReplica(t))
		call := legacy(2, "tools/call", callPeer)
		full := newReplica(t, server.WithLimits(server.Limits{MaxSessions: 1}))
		release := make(chan struct{})
		server.AddTool(full, server.Tool{Name: "wait"}, func(context.Context, *server.Call, struct{}) (string, error) {
			<-release
			return "", nil
		})
		busy := open(t, full)
		done := make(chan int)
		go func() { done <- post(full, legacy(2, "tools/call", `"name":"wait","arguments":{}`), busy).Code }()
		synctest.Wait()
		w := post(full, call, session)
		require.Equal(t, 429, w.Code, w.Body)
		require.Contains(t, w.Body.String(), "max_sessions")
		require.Equal(t, "1", w.Header().Get("Retry-After"))
		close(release)
		require.Equal(t, 200, <-done)
		synctest.Wait()
		require.Equal(t, 200, post(full, call, session).Code)

		draining := newReplica(t)
		require.NoError(t, draining.Shutdown(t.Context()))
		require.Equal(t, 503, post(draining, call, session).Code)
		require.Equal(t, 503, send(draining, http.MethodGet, "", session, "Accept: text/event-stream").Code)
		full.Close()
	})
}

// The session that another process has opened gets the changes of lists.
func TestSealedSessionHearsOfChanges(t *testing.T) {
	a, b := newReplica(t), newReplica(t)
	session := open(t, a)
	url := listen(t, b)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	req.Header.Set("Accept", "text/event-stream")
	name, id, _ := strings.Cut(session, ": ")
	req.Header.Set(name, id)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, 200, res.StatusCode)
	server.AddTool(b, server.Tool{Name: "new"}, text("x"))
	for lines := bufio.NewScanner(res.Body); ; {
		require.True(t, lines.Scan(), lines.Err())
		if strings.Contains(lines.Text(), string(mcp.NotificationToolsListChanged)) {
			return
		}
	}
}
