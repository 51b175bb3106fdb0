package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// The stream of a modern request has messages about that request only, and ends with its answer.
func TestStreamOfARequestIsItsOwn(t *testing.T) {
	srv := changing(t)
	release := make(chan struct{})
	server.AddTool(srv, server.Tool{Name: "work"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
		if err := call.Progress(1, 2, "begun"); err != nil {
			return "", err
		}
		<-release
		return "done", nil
	})
	url := listen(t, srv)
	headers := func(method, name string) []string {
		return []string{"Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: " + method, "Mcp-Name: " + name}
	}
	begun := func(token string) string {
		return progressFrame(`"progressToken":"` + token + `","progress":1,"total":2,"message":"begun"`)
	}
	begin := func(id int) *eventStream {
		token := fmt.Sprint("token-", id)
		s := openStream(t, "POST", url, modern(id, "tools/call", call("work", `{}`), `"progressToken":"`+token+`"`), headers("tools/call", "work")...)
		require.JSONEq(t, begun(token), s.next())
		return s
	}
	listener := openStream(t, "POST", url, listenTo(0, everything), headers("subscriptions/listen", "")...)
	require.JSONEq(t, acknowledged(0, everything), listener.next())
	first := begin(1)
	second := begin(2)
	server.AddTool(srv, server.Tool{Name: "more"}, text("more"))
	require.JSONEq(t, about(0, toolsChanged, ""), listener.next())
	srv.ResourceUpdated("test://a")
	require.JSONEq(t, updated(0, "test://a"), listener.next())
	close(release)
	for id, s := range map[int]*eventStream{1: first, 2: second} {
		require.JSONEq(t, result(id, `"content":[{"type":"text","text":"done"}],`+serverMeta), s.next())
		s.ends()
	}
}

// The requests of the server to one legacy client have unique ids, which are never null.
func TestQuestionsHaveUniqueIDs(t *testing.T) {
	srv := newServer(t)
	server.AddTool(srv, server.Tool{Name: "ask"}, func(ctx context.Context, call *server.Call, _ none) (string, error) {
		for range 3 {
			if _, err := call.CallClient(ctx, mcp.MethodRootsList, nil); err != nil {
				return "", err
			}
		}
		return "asked", nil
	})
	p := oldPipe(t, srv, mcp.Version20250618)
	seen := map[string]bool{}
	for range 4 {
		p.send(legacy(1, "tools/call", call("ask", `{}`)))
		for range 3 {
			var f frame
			require.NoError(t, json.Unmarshal([]byte(p.recv()), &f))
			require.Equal(t, "roots/list", f.Method)
			require.Regexp(t, `^(\d+|".+")$`, string(f.ID))
			require.False(t, seen[string(f.ID)], "%s comes twice", f.ID)
			seen[string(f.ID)] = true
			p.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"roots":[]}}`, f.ID))
		}
		require.Contains(t, p.recv(), `"asked"`)
	}
}

// A modern client gets a page without an elicitationId, also if the handler sets one.
func TestModernPagesHaveNoID(t *testing.T) {
	srv := newServer(t)
	server.AddTool(srv, server.Tool{Name: "page"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
		_, err := call.Elicit("k", &mcp.ElicitParams{Mode: mcp.ElicitURL, Message: "m", URL: "https://x.test/", ElicitationID: "mine"})
		return "", err
	})
	var asked roundsResult
	var answer frame
	require.NoError(t, json.Unmarshal([]byte(dial(t, srv).ask(asking(1, "tools/call", call("page", `{}`)))), &answer))
	require.NoError(t, json.Unmarshal(answer.Result, &asked))
	require.JSONEq(t, `{"mode":"url","message":"m","url":"https://x.test/"}`, string(asked.InputRequests["k"].Params))
}
