package streamable_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/streamable"
	"github.com/vitrine-mcp/vitrine/mcp"
)

func TestLegacySession(t *testing.T) {
	eachProtocol(t, func(t *testing.T, proto protocol) {
		e := newEndpoint(t, proto, limits.Limits{}, streamable.Config{})

		// initialize announces the session, whatever version header comes with it.
		res, body := e.post(legacy(7, "initialize", ""), "Mcp-Protocol-Version: 2025-06-18")
		require.Equal(t, 200, res.StatusCode)
		require.Equal(t, answer(7, "welcome"), body)
		id := res.Header.Get("Mcp-Session-Id")
		require.Regexp(t, `^[\x21-\x7e]{20,}$`, id)
		sid := "Mcp-Session-Id: " + id
		require.NotEqual(t, sid, e.session(), "each has its own")

		unknown := "Mcp-Session-Id: " + id + "x"
		const noSession = `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"there is no such session","data":{"reason":"session_unknown"}}}`
		const initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
		const response = `{"jsonrpc":"2.0","id":1,"result":{}}`
		const waysIn = "begin with initialize, or send each request as revision 2026-07-28 has it, with " +
			"io.modelcontextprotocol/protocolVersion and io.modelcontextprotocol/clientCapabilities in params._meta"
		const noID = "Mcp-Session-Id is missing: " + waysIn +
			" and the headers MCP-Protocol-Version, Mcp-Method and, if there is a name or uri, Mcp-Name"
		const noMeta = "params._meta is missing: it has io.modelcontextprotocol/protocolVersion and " +
			"io.modelcontextprotocol/clientCapabilities; clients of older revisions begin with initialize"
		const noMethod = "method not allowed: messages come by POST; GET and DELETE are for sessions and need Mcp-Session-Id"
		missing := failure("1", -32600, noID)
		badVersion := failure("", -32600, "unsupported Mcp-Protocol-Version")
		for _, step := range []struct {
			name, method, body string
			headers            []header
			status             int
			want               string // the JSON of the body, or empty
		}{
			{"notification", "POST", initialized, []header{sid}, 202, ""},
			{"ping", "POST", legacy(1, "ping", "x"), []header{sid}, 200, answer(1, "")},
			{"call", "POST", legacy(1, "tools/call", "echo"), []header{sid}, 200, answer(1, "echo")},
			{"call with its version", "POST", legacy(1, "tools/call", "echo"), []header{sid, "Mcp-Protocol-Version: 2025-11-25"}, 200, answer(1, "echo")},
			{"call with an unknown version", "POST", legacy(1, "tools/call", "echo"), []header{sid, "Mcp-Protocol-Version: 1999-01-01"}, 400,
				failure("1", -32602, noMeta)},
			{"call with the modern version", "POST", legacy(1, "tools/call", "echo"), []header{sid, "Mcp-Protocol-Version: 2026-07-28"}, 400,
				failure("1", -32602, noMeta)},
			{"response that nobody waits for", "POST", response, []header{sid}, 202, ""},
			{"cancel that hits nobody", "POST", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, []header{sid}, 202, ""},

			{"call without a session", "POST", legacy(1, "tools/call", "echo"), nil, 400, missing},
			{"ping without a session", "POST", legacy(1, "ping", "pong"), nil, 400, missing},
			{"notification without a session", "POST", initialized, nil, 400, failure("null", -32600, noID)},
			{"response in an unknown session", "POST", `{"jsonrpc":"2.0","id":1,"result":{}}`, []header{unknown}, 404,
				`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"there is no such session","data":{"reason":"session_unknown"}}}`},
			{"call in an unknown session", "POST", legacy(1, "tools/call", "echo"), []header{unknown}, 404, noSession},
			{"initialize in an unknown session", "POST", legacy(1, "initialize", ""), []header{unknown}, 404, noSession},

			{"notification with an unknown version", "POST", initialized, []header{sid, "Mcp-Protocol-Version: 1999-01-01"}, 400, badVersion},
			{"notification without a session, with an unknown version", "POST", initialized, []header{"Mcp-Protocol-Version: 1999-01-01"}, 400, badVersion},
			{"modern notification with an unknown version", "POST",
				`{"jsonrpc":"2.0","method":"notifications/x","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`,
				[]header{"Mcp-Protocol-Version: 1999-01-01"}, 400, badVersion},
			{"get with an unknown version", "GET", "", []header{sid, "Mcp-Protocol-Version: 1999-01-01"}, 400, badVersion},
			{"resume with an unknown version", "GET", "", []header{sid, "Mcp-Protocol-Version: 1999-01-01", "Last-Event-Id: 1"}, 400, badVersion},
			{"delete with an unknown version", "DELETE", "", []header{sid, "Mcp-Protocol-Version: 1999-01-01"}, 400, badVersion},

			{"get without a session", "GET", "", nil, 405, failure("", -32600, noMethod)},
			{"get of an unknown session", "GET", "", []header{unknown}, 404, ""},
			{"get of JSON", "GET", "", []header{sid, "Accept: application/json"}, 406, failure("", -32600, "Accept must allow text/event-stream")},
			{"put", "PUT", "", []header{sid}, 405, failure("", -32600, noMethod)},
			{"delete without a session", "DELETE", "", nil, 405, failure("", -32600, noMethod)},
			{"delete of a modern client", "DELETE", "", []header{sid, "Mcp-Protocol-Version: 2026-07-28"}, 405, failure("", -32600, noMethod)},
			{"get of a modern client", "GET", "", []header{"Mcp-Protocol-Version: 2026-07-28"}, 405, failure("", -32600, noMethod)},
			{"delete of an unknown session", "DELETE", "", []header{unknown}, 404, ""},
			{"the session is still there", "POST", legacy(1, "tools/call", "echo"), []header{sid}, 200, answer(1, "echo")},

			{"delete", "DELETE", "", []header{sid}, 204, ""},
			{"delete again", "DELETE", "", []header{sid}, 404, ""},
			{"call after delete", "POST", legacy(1, "tools/call", "echo"), []header{sid}, 404, noSession},
			{"notification after delete", "POST", initialized, []header{sid}, 404, ""},
		} {
			t.Run(step.name, func(t *testing.T) {
				e.t = t
				res, body := e.do(e.request(t.Context(), step.method, step.body, step.headers...))
				require.Equal(t, step.status, res.StatusCode, body)
				require.Empty(t, res.Header.Get("Mcp-Session-Id"), "only initialize announces it")
				switch {
				case step.status == http.StatusAccepted || step.status == http.StatusNoContent:
					require.Empty(t, body)
				case step.want != "":
					require.JSONEq(t, step.want, body)
					fallthrough
				default:
					require.Equal(t, "application/json", res.Header.Get("Content-Type"))
				}
				if step.status == http.StatusMethodNotAllowed {
					want := "GET, POST, DELETE"
					if len(step.headers) > 0 && step.headers[len(step.headers)-1] == "Mcp-Protocol-Version: 2026-07-28" {
						want = "POST"
					}
					require.Equal(t, want, res.Header.Get("Allow"))
				}
			})
		}
		e.Conserved()
	})
}

// A failed initialize leaves no session.
func TestFailedInitializeLeavesNoSession(t *testing.T) {
	e := newEndpoint(t, http1, limits.Limits{}, streamable.Config{})
	res, body := e.post(legacy(1, "initialize", "fail"))
	require.Equal(t, 200, res.StatusCode)
	require.JSONEq(t, failure("1", -32602, "not you"), body)
	require.Empty(t, res.Header.Get("Mcp-Session-Id"))
	<-e.left // the session ends after its answer
	require.Empty(t, e.Conserved().SessionsClosed[mcp.CauseSessionDelete])
	require.EqualValues(t, 1, e.Core.Snapshot().Counters.SessionsClosed[mcp.CauseTransportClose])
}

// Over legacy HTTP a cancelled request ends its exchange with -32800.
func TestLegacyCancelEndsItsExchange(t *testing.T) {
	e := newEndpoint(t, http1, limits.Limits{}, streamable.Config{})
	sid, other := e.session(), e.session()
	answered := make(chan string, 1)
	req := e.request(t.Context(), "POST", legacy(1, "tools/call", "wait"), sid)
	go func() {
		_, body := e.do(req)
		answered <- body
	}()
	<-e.Started
	cancel := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`
	e.post(cancel, other) // another session's 1
	require.Empty(t, e.Ended)
	res, _ := e.post(cancel, sid)
	require.Equal(t, 202, res.StatusCode)
	require.JSONEq(t, failure("1", -32800, "Request cancelled"), <-answered)
	require.ErrorIs(t, <-e.Ended, mcp.ErrClientCancelled)
	e.Conserved()
}

// Over modern HTTP a cancel by POST is acknowledged and ignored: an id that a client chose must
// not affect another exchange.
func TestModernCancelIsIgnored(t *testing.T) {
	e := newEndpoint(t, http1, limits.Limits{}, streamable.Config{})
	answered := make(chan string, 1)
	req := e.request(t.Context(), "POST", modern(1, "wait"), modernHeaders("tools/call", "wait")...)
	go func() {
		_, body := e.do(req)
		answered <- body
	}()
	<-e.Started
	res, body := e.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, "Mcp-Protocol-Version: 2026-07-28")
	require.Equal(t, 202, res.StatusCode)
	require.Empty(t, body)
	e.Release <- struct{}{}
	require.NoError(t, <-e.Ended)
	require.Equal(t, answer(1, "wait"), <-answered)
	require.EqualValues(t, 1, e.Conserved().Ignored[session.Ignored{Kind: mcp.IgnoredCancel, Reason: mcp.IgnoreWrongTransport}])
}

// A modern client sends requests and notifications, nothing else.
func TestModernClientSendsRequestsAndNotificationsOnly(t *testing.T) {
	e := newEndpoint(t, http1, limits.Limits{}, streamable.Config{})
	res, body := e.post(`{"jsonrpc":"2.0","method":"notifications/anything","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`)
	require.Equal(t, 202, res.StatusCode)
	require.Empty(t, body)
	res, body = e.post(`{"jsonrpc":"2.0","id":1,"result":{}}`, "Mcp-Protocol-Version: 2026-07-28")
	require.Equal(t, 400, res.StatusCode)
	require.Contains(t, body, `"code":-32600`)
	require.Equal(t, map[session.Ignored]uint64{{Kind: mcp.IgnoredResponse, Reason: mcp.IgnoreEraForbidden}: 1}, e.Conserved().Ignored)
}

// The end of a session ends the exchanges of its requests at once.
func TestDeleteEndsRunningRequests(t *testing.T) {
	e := newEndpoint(t, http1, limits.Limits{}, streamable.Config{})
	sid := e.session()
	type result struct {
		status int
		body   string
	}
	answered := make(chan result, 1)
	req := e.request(t.Context(), "POST", legacy(1, "tools/call", "wait"), sid)
	go func() {
		res, body := e.do(req)
		answered <- result{res.StatusCode, body}
	}()
	<-e.Started
	res, _ := e.do(e.request(t.Context(), "DELETE", "", sid))
	require.Equal(t, 204, res.StatusCode)
	require.ErrorIs(t, <-e.Ended, mcp.ErrSessionDeleted)
	got := <-answered
	require.Equal(t, 404, got.status)
	require.JSONEq(t, `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"there is no such session","data":{"reason":"session_unknown"}}}`, got.body)
	require.EqualValues(t, 1, dropped(e.Conserved(), mcp.DropSessionGone))
}

// Of two requests with one id in one session the second is rejected. Its error may carry the
// id, because it has an exchange of its own.
func TestDuplicateIDIsRejectedOverHTTP(t *testing.T) {
	e := newEndpoint(t, http1, limits.Limits{}, streamable.Config{})
	sid, other := e.session(), e.session()
	answered := make(chan string, 1)
	req := e.request(t.Context(), "POST", legacy(1, "tools/call", "wait"), sid)
	go func() {
		_, body := e.do(req)
		answered <- body
	}()
	<-e.Started
	res, body := e.post(legacy(1, "tools/call", "echo"), sid)
	require.Equal(t, 400, res.StatusCode)
	require.JSONEq(t, `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"a request with this id is still in flight",
		"data":{"reason":"duplicate_id","id":1}}}`, body)
	_, body = e.post(legacy(1, "tools/call", "echo"), other)
	require.Equal(t, answer(1, "echo"), body, "another session's 1")
	_, body = e.call("echo")
	require.Equal(t, answer(1, "echo"), body, "a modern 1")
	e.Release <- struct{}{}
	require.Equal(t, answer(1, "wait"), <-answered)
	e.Conserved()
}

// Messages of the server that belong to no request use the stream that the client has opened
// for them.
func TestGETStreamCarriesMessagesOfNoRequest(t *testing.T) {
	eachProtocol(t, func(t *testing.T, proto protocol) {
		e := newEndpoint(t, proto, limits.Limits{}, streamable.Config{})
		sid := e.session()
		s := e.Core.Session(strings.TrimPrefix(sid, "Mcp-Session-Id: "), nil)
		require.ErrorIs(t, s.Notify(t.Context(), "notifications/x", []byte(`{}`), ""), mcp.ErrPeerGone)

		res, err := e.srv.Client().Do(e.request(t.Context(), "GET", "", sid))
		require.NoError(t, err)
		defer res.Body.Close()
		require.Equal(t, 200, res.StatusCode)
		require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
		second, _ := e.do(e.request(t.Context(), "GET", "", sid))
		require.Equal(t, 409, second.StatusCode)

		require.NoError(t, s.Notify(t.Context(), "notifications/x", []byte(`{"n":1}`), ""))
		in := bufio.NewReader(res.Body)
		for _, want := range []string{"event: message\n", `data: {"jsonrpc":"2.0","method":"notifications/x","params":{"n":1}}` + "\n", "\n"} {
			line, err := in.ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, want, line)
		}
		res2, _ := e.do(e.request(t.Context(), "DELETE", "", sid))
		require.Equal(t, 204, res2.StatusCode)
		rest, err := io.ReadAll(in)
		require.NoError(t, err, "the end of the session ends the stream in order")
		require.Empty(t, rest)
		e.Conserved()
	})
}

// A hangUpWriter is a client that hangs up as soon as it has the answer.
type hangUpWriter struct {
	*httptest.ResponseRecorder
	hangUp func()
}

func (w *hangUpWriter) Flush() {
	w.ResponseRecorder.Flush()
	w.hangUp()
	synctest.Wait() // until the endpoint has noticed
}

// A client may close its connection once it has the answer to initialize. The session stays.
func TestDisconnectAfterInitializeKeepsTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, limits.Limits{})
		ctx, cancel := context.WithCancel(t.Context())
		req := httptest.NewRequestWithContext(ctx, "POST", "/", strings.NewReader(legacy(1, "initialize", "")))
		req.Header.Set("Content-Type", "application/json")
		w := &hangUpWriter{httptest.NewRecorder(), cancel}
		streamable.New(f.Core, streamable.Config{}).ServeHTTP(w, req)
		require.Equal(t, answer(1, "welcome"), w.Body.String())
		require.NotNil(t, f.Core.Session(w.Header().Get("Mcp-Session-Id"), nil))
		f.Conserved()
	})
}
