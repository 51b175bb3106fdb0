package streamable_test

import (
	"bufio"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/streamable"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A client that takes no event stream gets the answer and nothing else. Its notifications are
// counted as dropped, and the handler gets no error.
func TestClientWithoutEventStreamsGetsItsAnswerOnly(t *testing.T) {
	eachProtocol(t, func(t *testing.T, proto protocol) {
		const only = "Accept: application/json"
		e := newEndpoint(t, proto, limits.Limits{}, streamable.Config{})
		sid := e.session()
		for _, legacyEra := range []bool{false, true} {
			res, body := e.call("progress:xx", only)
			if legacyEra {
				res, body = e.post(legacy(1, "tools/call", "progress:xx"), sid, only)
			}
			require.Equal(t, 200, res.StatusCode)
			require.Equal(t, "application/json", res.Header.Get("Content-Type"))
			require.Equal(t, answer(1, "progress:xx"), body)
		}

		// It can be asked on the session's own stream only, as soon as the handshake is over.
		e.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, sid)
		_, body := e.post(legacy(1, "tools/call", "ask"), sid, only)
		require.JSONEq(t, failure("1", -32603, mcp.ErrPeerGone.Error()), body)
		res, err := e.srv.Client().Do(e.request(t.Context(), "GET", "", sid))
		require.NoError(t, err)
		defer res.Body.Close()
		answered := make(chan string, 1)
		req := e.request(t.Context(), "POST", legacy(1, "tools/call", "ask"), sid, only)
		go func() {
			_, body := e.do(req)
			answered <- body
		}()
		in := bufio.NewScanner(res.Body)
		for in.Scan() && !strings.Contains(in.Text(), `"id":2,"method":"roots/list"`) {
		}
		e.post(`{"jsonrpc":"2.0","id":2,"result":{}}`, sid)
		require.Equal(t, answer(1, "{}"), <-answered)

		c := e.Conserved()
		require.Equal(t, map[session.DroppedNotification]uint64{
			{Method: "notifications/progress", Reason: mcp.DropStreamGone}: 6,
		}, c.NotificationsDropped)
	})
}

// A client that takes only event streams gets one even if there is nothing before the answer.
// A response that is not a success has a status of its own, which an event stream cannot have.
func TestClientWithoutJSONGetsAnEventStream(t *testing.T) {
	eachProtocol(t, func(t *testing.T, proto protocol) {
		const only = "Accept: text/event-stream"
		e := newEndpoint(t, proto, limits.Limits{}, streamable.Config{})
		event := func(text string) string { return "event: message\ndata: " + text + "\n\n" }
		res, body := e.post(legacy(7, "initialize", ""), only)
		require.Equal(t, 200, res.StatusCode)
		require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
		require.Equal(t, event(answer(7, "welcome")), body)
		sid := "Mcp-Session-Id: " + res.Header.Get("Mcp-Session-Id")
		res, body = e.post(legacy(1, "tools/call", "echo"), sid, only)
		require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
		require.Equal(t, event(answer(1, "echo")), body)
		res, body = e.call("echo", only)
		require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
		require.Equal(t, event(answer(1, "echo")), body)
		res, body = e.call("fail:-32602", only)
		require.Equal(t, 400, res.StatusCode)
		require.Equal(t, "application/json", res.Header.Get("Content-Type"))
		require.JSONEq(t, failure("1", -32602, "failed"), body)
		e.Conserved()
	})
}

// What a client refuses with q=0 it does not get. Of several ranges the most exact one decides, in whatever order they come.
func TestAcceptWithWeights(t *testing.T) {
	e := newEndpoint(t, http1, limits.Limits{}, streamable.Config{})
	sid := e.session()
	const j, s = "application/json", "text/event-stream"
	for accept, want := range map[string]string{ // the type of the answer, or "" for 406
		"*/*": j, "*/*;q=0": "", "application/json;q=0": "", "application/json; Q=0.000": "", "application/json;q=0.001": j,
		"application/json;q=0, text/event-stream": s, "application/*;q=0, text/*": s, "*/*, application/json;q=0": s,
		"application/json;q=0, */*": s, "*/*;q=0, application/json": j, "application/json, */*;q=0": j,
		"application/*;q=0, application/json;q=0.5": j, "application/json;charset=utf-8;q=0, text/event-stream;q=1": s,
	} {
		t.Run(accept, func(t *testing.T) {
			e.t = t
			res, body := e.call("echo", "Accept: "+accept)
			if want == "" {
				require.Equal(t, 406, res.StatusCode, body)
				return
			}
			require.Equal(t, 200, res.StatusCode, body)
			require.Equal(t, want, res.Header.Get("Content-Type"))
		})
	}
	e.t = t
	res, body := e.do(e.request(t.Context(), "GET", "", sid, "Accept: text/event-stream;q=0, */*"))
	require.Equal(t, 406, res.StatusCode, body)
}
