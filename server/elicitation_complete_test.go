package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
)

// shake does the legacy handshake of a client that can be asked everything.
func (p *rawPipe) shake(version string) {
	p.t.Helper()
	require.Contains(p.t, p.ask(legacy("init", "initialize", `"protocolVersion":"`+version+`",`+initializeAll)), `"result"`)
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func signInAt(id string) *mcp.ElicitParams {
	return &mcp.ElicitParams{Mode: mcp.ElicitURL, Message: "sign in", URL: "https://x.test/" + id, ElicitationID: id}
}

func pageParams(id string) string {
	return fmt.Sprintf(`{"mode":"url","message":"sign in","url":"https://x.test/%s","elicitationId":%q}`, id, id)
}

func complete(id string) string {
	return notification("notifications/elicitation/complete", fmt.Sprintf(`"elicitationId":%q`, id))
}

// addPage adds a tool that asks for a page and then does what the test wants.
func addPage(srv *server.Server, then func(ctx context.Context, id string)) {
	server.AddTool(srv, server.Tool{Name: "page"}, func(ctx context.Context, call *server.Call, in struct {
		ID string `json:"id"`
	}) (string, error) {
		r, err := call.Elicit("k", signInAt(in.ID))
		if err != nil {
			return "", err
		}
		then(ctx, in.ID)
		return string(r.Action), nil
	})
}

const consent = `{"action":"accept"}`

// A client that was asked to open a page is told when the user is done there: on the stream of
// the request, or later on that of the session.
func TestElicitationComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		early := true
		addPage(srv, func(ctx context.Context, id string) {
			if early {
				require.NoError(t, srv.ElicitationComplete(ctx, id))
			}
		})
		server.AddTool(srv, server.Tool{Name: "form"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
			_, err := call.Elicit("k", &mcp.ElicitParams{Message: "m", ElicitationID: "form"})
			return "", err
		})
		p := dial(t, srv)
		p.shake("2025-11-25")
		other := dial(t, srv)
		other.shake("2025-11-25")
		ask := func(p *rawPipe, id string) {
			t.Helper()
			var asked frame
			require.NoError(t, json.Unmarshal([]byte(p.ask(legacy(1, "tools/call", call("page", `{"id":"`+id+`"}`)))), &asked))
			require.JSONEq(t, pageParams(id), string(asked.Params))
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, asked.ID, consent))
		}
		told := func(id string) { require.NoError(t, srv.ElicitationComplete(t.Context(), id)) }
		done := result(1, `"content":[{"type":"text","text":"accept"}]`)

		ask(p, "a")
		require.JSONEq(t, complete("a"), p.recv(), "before the answer")
		require.JSONEq(t, done, p.recv())
		early = false
		ask(p, "b")
		require.JSONEq(t, done, p.recv())
		for range 2 {
			told("a") // was told
			told("nobody")
		}
		p.silent()
		told("b")
		require.JSONEq(t, complete("b"), p.recv())
		told("b")
		p.silent()

		// A form is no page, whatever its author calls it.
		require.NotContains(t, p.ask(legacy("form", "tools/call", call("form", `{}`))), "elicitationId")
		told("form")
		p.silent()

		// Two clients that were asked under one id are both told. A client that has left does not matter.
		ask(p, "c")
		ask(other, "c")
		require.JSONEq(t, done, p.recv())
		require.JSONEq(t, done, other.recv())
		told("c")
		require.JSONEq(t, complete("c"), p.recv())
		require.JSONEq(t, complete("c"), other.recv())
		ask(other, "d")
		require.JSONEq(t, done, other.recv())
		require.NoError(t, other.hangUp())
		synctest.Wait()
		told("d")
		p.silent()
	})
}

// Modern clients, and those before 2025-11-25, are not told.
func TestElicitationCompleteOfOtherRevisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		addPage(srv, func(ctx context.Context, id string) { require.NoError(t, srv.ElicitationComplete(ctx, id)) })
		p := dial(t, srv)
		params := call("page", `{"id":"a"}`)
		var asked frame
		require.NoError(t, json.Unmarshal([]byte(p.ask(asking(1, "tools/call", params))), &asked))
		again := retryParams(t, params, asked.Result, func(q servertest.Question) string {
			require.JSONEq(t, `{"mode":"url","message":"sign in","url":"https://x.test/a"}`, string(q.Params))
			return consent
		})
		require.Contains(t, p.ask(asking(2, "tools/call", again)), `"accept"`)
		require.NoError(t, srv.ElicitationComplete(t.Context(), "a"))
		p.silent()

		server.AddTool(srv, server.Tool{Name: "raw"}, func(ctx context.Context, call *server.Call, _ none) (string, error) {
			_, err := call.CallClient(ctx, mcp.MethodElicitationCreate, signInAt("raw"))
			return "asked", err
		})
		for version, tells := range map[string]bool{"2025-06-18": false, "2025-11-25": true} {
			p := dial(t, srv)
			p.shake(version)
			p.send(legacy(1, "tools/call", call("raw", `{}`)))
			require.Contains(t, p.recv(), `"elicitationId":"raw"`)
			p.send(`{"jsonrpc":"2.0","id":1,"result":` + consent + `}`)
			require.Contains(t, p.recv(), `"asked"`)
			require.NoError(t, srv.ElicitationComplete(t.Context(), "raw"))
			if tells {
				require.JSONEq(t, complete("raw"), p.recv())
			}
			p.silent()
		}
	})
}

// Over HTTP a client may have no open stream at first, and open one later.
func TestElicitationCompleteOverHTTP(t *testing.T) {
	srv := newServer(t)
	early := true
	addPage(srv, func(ctx context.Context, id string) {
		if early {
			require.NoError(t, srv.ElicitationComplete(ctx, id))
		}
	})
	url := listen(t, srv)
	res, _ := exchange(t, "POST", url, legacy(1, "initialize", `"protocolVersion":"2025-11-25",`+initializeAll))
	sid := "Mcp-Session-Id: " + res.Header.Get("Mcp-Session-Id")
	exchange(t, "POST", url, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, sid)
	ask := func(id string) *eventStream {
		s := openStream(t, "POST", url, legacy(1, "tools/call", call("page", `{"id":"`+id+`"}`)), sid)
		var asked frame
		require.NoError(t, json.Unmarshal([]byte(s.next()), &asked))
		exchange(t, "POST", url, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, asked.ID, consent), sid)
		return s
	}
	s := ask("a")
	require.JSONEq(t, complete("a"), s.next())
	require.Contains(t, s.next(), `"accept"`)
	early = false
	s = ask("b")
	require.Contains(t, s.next(), `"accept"`)
	require.ErrorIs(t, srv.ElicitationComplete(t.Context(), "b"), mcp.ErrPeerGone)
	own := openStream(t, "GET", url, "", sid)
	require.NoError(t, srv.ElicitationComplete(t.Context(), "b"), "it is not forgotten before it is told")
	require.JSONEq(t, complete("b"), own.next())
	conserved(t, srv)
}

// A client that takes no event stream for its answer is told on the session's stream.
func TestElicitationCompleteOfAPlainRequest(t *testing.T) {
	srv := newServer(t)
	done := make(chan error, 1)
	addPage(srv, func(ctx context.Context, id string) { done <- srv.ElicitationComplete(ctx, id) })
	url := listen(t, srv)
	sid := begin2025(t, url)
	own := openStream(t, "GET", url, "", sid)
	answered := make(chan string, 1)
	go func() {
		_, body := exchange(t, "POST", url, legacy(1, "tools/call", call("page", `{"id":"a"}`)), sid, "Accept: application/json")
		answered <- body
	}()
	var asked frame
	require.NoError(t, json.Unmarshal([]byte(own.next()), &asked))
	exchange(t, "POST", url, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, asked.ID, consent), sid)
	require.NoError(t, <-done)
	require.JSONEq(t, complete("a"), own.next())
	require.Contains(t, <-answered, `"result"`)
}

func begin2025(t *testing.T, url string) (session string) {
	t.Helper()
	res, _ := exchange(t, "POST", url, legacy(1, "initialize", `"protocolVersion":"2025-11-25",`+initializeAll))
	session = "Mcp-Session-Id: " + res.Header.Get("Mcp-Session-Id")
	exchange(t, "POST", url, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, session)
	return session
}

// A session remembers a bounded number of pages, and removes the oldest first.
func TestManyPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t)
		server.AddTool(srv, server.Tool{Name: "pages"}, func(_ context.Context, _ *server.Call, _ none) (string, error) {
			data := mcp.URLElicitationRequiredData{}
			for i := range 65 {
				data.Elicitations = append(data.Elicitations, *signInAt(fmt.Sprint(i)))
			}
			return "", mcp.NewError(mcp.CodeURLElicitationRequired, "open them").WithData(data)
		})
		p := dial(t, srv)
		p.shake("2025-11-25")
		require.Contains(t, p.ask(legacy(1, "tools/call", call("pages", `{}`))), `-32042`)
		require.NoError(t, srv.ElicitationComplete(t.Context(), "0"))
		p.silent()
		for i := 1; i < 65; i++ {
			require.NoError(t, srv.ElicitationComplete(t.Context(), fmt.Sprint(i)))
			require.JSONEq(t, complete(fmt.Sprint(i)), p.recv())
		}
	})
}
