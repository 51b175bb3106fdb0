package server_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
)

// changing returns a server with a tool, a prompt, two resources and a template.
func changing(t *testing.T, opts ...server.Option) *server.Server {
	srv := newServer(t, opts...)
	server.AddTool(srv, server.Tool{Name: "hi"}, text("hello"))
	addPrompt(srv, "greet")
	for _, uri := range []string{"test://a", "test://dir"} {
		server.AddStaticResource(srv, server.Resource{URI: uri, Name: uri}, "content")
	}
	server.AddResourceTemplate(srv, server.ResourceTemplate{URITemplate: "test://item/{id}", Name: "items"},
		func(context.Context, *server.Call, string, map[string]string) (string, error) { return "item", nil })
	return srv
}

func addPrompt(srv *server.Server, name string) {
	server.AddPrompt(srv, server.Prompt{Name: name},
		func(context.Context, *server.Call, map[string]string) (*mcp.GetPromptResult, error) {
			return mcp.PromptText("hello"), nil
		})
}

// listenTo is a subscriptions/listen; filter is JSON.
func listenTo(id any, filter string) string {
	return modern(id, "subscriptions/listen", `"notifications":`+filter)
}

// about is a notification of a subscription; members are those of its params but _meta.
func about(id any, method, members string) string {
	if members != "" {
		members += ","
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`,
		method, members, jsonID(id))
}

func acknowledged(id any, filter string) string {
	return about(id, "notifications/subscriptions/acknowledged", `"notifications":`+filter)
}

func updated(id any, uri string) string {
	return about(id, "notifications/resources/updated", fmt.Sprintf(`"uri":%q`, uri))
}

// over is the polite end of a subscription.
func over(id any) string {
	return result(id, `"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"test","version":"1"},`+
		`"io.modelcontextprotocol/subscriptionId":`+jsonID(id)+`}`)
}

const (
	toolsChanged     = "notifications/tools/list_changed"
	promptsChanged   = "notifications/prompts/list_changed"
	resourcesChanged = "notifications/resources/list_changed"
	everything       = `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["test://a"]}`
)

func TestListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := changing(t)
		p := dial(t, srv)
		require.JSONEq(t, acknowledged(1, everything), p.ask(listenTo(1, everything)))

		server.AddTool(srv, server.Tool{Name: "more"}, text("more"))
		require.JSONEq(t, about(1, toolsChanged, ""), p.recv())
		srv.RemoveTools("more")
		require.JSONEq(t, about(1, toolsChanged, ""), p.recv())
		srv.RemoveTools("no such tool")
		p.silent()
		addPrompt(srv, "more")
		require.JSONEq(t, about(1, promptsChanged, ""), p.recv())
		srv.RemoveResources("test://dir")
		require.JSONEq(t, about(1, resourcesChanged, ""), p.recv())
		srv.ResourceUpdated("test://a")
		require.JSONEq(t, updated(1, "test://a"), p.recv())
		srv.ResourceUpdated("test://other")
		p.silent()

		p.send(cancelled(1))
		p.silent()
		srv.ResourceUpdated("test://a")
		server.AddTool(srv, server.Tool{Name: "more"}, text("more"))
		p.silent()
	})
}

// The first message acknowledges the granted filter. The client gets nothing else than what it
// has asked for.
func TestListenFilter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := changing(t)
		change := func() {
			server.AddTool(srv, server.Tool{Name: "x"}, text("x"))
			srv.RemoveTools("x")
			addPrompt(srv, "x")
			srv.RemovePrompts("x")
			server.AddStaticResource(srv, server.Resource{URI: "test://x", Name: "x"}, "x")
			srv.RemoveResources("test://x")
			for _, uri := range []string{"test://a", "test://dir", "test://dir/file", "test://dirt", "test://item/1", "test://item/1?q#f"} {
				srv.ResourceUpdated(uri)
			}
		}
		p := dial(t, srv)
		for i, tt := range []struct {
			filter, honoured string
			told             []string // what must come, in any number
		}{
			{`{}`, `{}`, nil},
			{`{"toolsListChanged":false,"resourceSubscriptions":[]}`, `{}`, nil},
			{`{"toolsListChanged":true}`, `{"toolsListChanged":true}`, []string{toolsChanged}},
			{`{"promptsListChanged":true}`, `{"promptsListChanged":true}`, []string{promptsChanged}},
			{`{"resourcesListChanged":true}`, `{"resourcesListChanged":true}`, []string{resourcesChanged}},
			{`{"resourceSubscriptions":["test://a","test://nowhere","test://a",""]}`, `{"resourceSubscriptions":["test://a"]}`, []string{"test://a"}},
			{`{"resourceSubscriptions":["test://dir"]}`, `{"resourceSubscriptions":["test://dir"]}`, []string{"test://dir", "test://dir/file"}},
			{`{"resourceSubscriptions":["test://item/1"]}`, `{"resourceSubscriptions":["test://item/1"]}`, []string{"test://item/1", "test://item/1?q#f"}},
			{`{"resourceSubscriptions":["test://item/1","test://item/2"],"toolsListChanged":true}`,
				`{"resourceSubscriptions":["test://item/1","test://item/2"],"toolsListChanged":true}`,
				[]string{toolsChanged, "test://item/1", "test://item/1?q#f"}},
			{`{"taskIds":["1"],"ofAnotherServer":{"x":1},"toolsListChanged":true}`, `{"toolsListChanged":true}`, []string{toolsChanged}},
		} {
			require.JSONEq(t, acknowledged(i, tt.honoured), p.ask(listenTo(i, tt.filter)), tt.filter)
			change()
			synctest.Wait()
			told := map[string]bool{}
			for len(p.lines) > 0 {
				line := p.recv()
				require.Contains(t, line, fmt.Sprintf(`"io.modelcontextprotocol/subscriptionId":%d`, i))
				known := false
				for _, want := range tt.told {
					if strings.Contains(line, `"`+want+`"`) {
						told[want], known = true, true
					}
				}
				require.True(t, known, "%s was not asked for: %s", tt.filter, line)
			}
			require.Len(t, told, len(tt.told), tt.filter)
			p.send(cancelled(i))
			synctest.Wait()
		}
	})
}

func TestListenBadFilter(t *testing.T) {
	srv := changing(t)
	p := dial(t, srv)
	for _, tt := range []struct{ params, message string }{
		{``, "params.notifications must be an object"},
		{`"notifications":null`, "params.notifications must be an object"},
		{`"notifications":true`, "params.notifications must be an object"},
		{`"notifications":[]`, "params.notifications must be an object"},
		{`"notifications":{"toolsListChanged":1}`, "params.notifications.toolsListChanged must be a boolean"},
		{`"notifications":{"promptsListChanged":null}`, "params.notifications.promptsListChanged must be a boolean"},
		{`"notifications":{"resourcesListChanged":"true"}`, "params.notifications.resourcesListChanged must be a boolean"},
		{`"notifications":{"resourceSubscriptions":"test://a"}`, "params.notifications.resourceSubscriptions must be an array of strings"},
		{`"notifications":{"resourceSubscriptions":null}`, "params.notifications.resourceSubscriptions must be an array of strings"},
		{`"notifications":{"resourceSubscriptions":["test://a",null]}`, "params.notifications.resourceSubscriptions must be an array of strings"},
		{`"notifications":{"resourceSubscriptions":[["test://a"]]}`, "params.notifications.resourceSubscriptions must be an array of strings"},
		{`"notifications":{"taskIds":[1]}`, "params.notifications.taskIds must be an array of strings"},
	} {
		require.JSONEq(t, failure(1, -32602, tt.message), p.ask(modern(1, "subscriptions/listen", tt.params)), tt.params)
	}
	require.Contains(t, p.ask(legacy(1, "subscriptions/listen", `"notifications":{}`)), `"code":-32600`)
}

// A capability that the server does not have is not granted. Later listens get it.
func TestListenGrantsWhatIsAnnounced(t *testing.T) {
	srv := newServer(t)
	p := dial(t, srv)
	require.JSONEq(t, acknowledged(1, `{"toolsListChanged":true}`), p.ask(listenTo(1, everything)))
	addPrompt(srv, "greet")
	server.AddStaticResource(srv, server.Resource{URI: "test://a", Name: "a"}, "content")
	require.JSONEq(t, acknowledged(2, everything), p.ask(listenTo(2, everything)))
	require.Contains(t, p.ask(modern(3, "server/discover", "")), `"resources":{"subscribe":true,"listChanged":true}`)
}

// A caller that may not read a resource gets no updates of it, and does not learn that it
// exists.
func TestListenHiddenResources(t *testing.T) {
	seen := map[string]bool{"test://a": true, "test://item/{id}": false}
	srv := changing(t, deny(func(_ *auth.Principal, op *auth.Operation) bool {
		return op.Kind != auth.KindTool && !seen[cmp.Or(op.Template, op.URI)]
	}))
	p := dial(t, srv)
	require.JSONEq(t, acknowledged(1, `{"resourceSubscriptions":["test://a"]}`),
		p.ask(listenTo(1, `{"resourceSubscriptions":["test://a","test://dir","test://item/1","test://nowhere"]}`)))
}

// All messages of a subscription have the id as the client has written it.
func TestListenIDs(t *testing.T) {
	for _, id := range []string{
		`0`, `1`, `-7`, `1.0`, `1e2`, `9007199254740993`, `""`, `"1"`, `"a b"`, `"\u0061"`, `"\"}"`, `"ü"`, `"\ud83d\ude00"`, `"\/"`,
	} {
		synctest.Test(t, func(t *testing.T) {
			srv := changing(t)
			p, other := dial(t, srv), dial(t, srv)
			for _, pipe := range []*rawPipe{p, other} {
				pipe.send(strings.Replace(listenTo(0, everything), `"id":0`, `"id":`+id, 1))
			}
			synctest.Wait()
			want := `"io.modelcontextprotocol/subscriptionId":` + id + `}`
			require.Contains(t, p.recv(), want)
			server.AddTool(srv, server.Tool{Name: "x"}, text("x"))
			line := p.recv()
			require.Contains(t, line, toolsChanged)
			require.Contains(t, line, want)
			srv.ResourceUpdated("test://a")
			require.Contains(t, p.recv(), want)
			synctest.Wait()
			p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
			synctest.Wait()
			require.Len(t, srv.Core().Snapshot().Subscriptions, 1)
			conserved(t, srv)
			p.silent() // it was cancelled
			for range 3 {
				other.recv()
			}
			require.Contains(t, other.recv(), want)
			last := other.recv()
			require.Contains(t, last, `"id":`+id+`,"result":`)
			require.JSONEq(t, strings.ReplaceAll(over(0), ":0", ":"+id), last) // the same value; JSON may escape it differently
		})
	}
}

// The subscriptions of one client are independent.
func TestListenSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := changing(t)
		p := dial(t, srv)
		p.ask(listenTo(1, `{"toolsListChanged":true,"resourceSubscriptions":["test://a"]}`))
		p.ask(listenTo("1", `{"toolsListChanged":true}`))
		p.ask(listenTo(2, `{"promptsListChanged":true}`))
		server.AddTool(srv, server.Tool{Name: "x"}, text("x"))
		synctest.Wait()
		require.ElementsMatch(t, []string{about(1, toolsChanged, ""), about("1", toolsChanged, "")}, []string{p.recv(), p.recv()})
		p.silent()
		srv.ResourceUpdated("test://a")
		require.JSONEq(t, updated(1, "test://a"), p.recv())
		p.silent()
		require.Contains(t, p.ask(modern(3, "tools/call", call("hi", `{}`))), "hello", "calls go on beside")
		p.send(cancelled(1))
		synctest.Wait()
		server.AddTool(srv, server.Tool{Name: "y"}, text("y"))
		require.JSONEq(t, about("1", toolsChanged, ""), p.recv())
		p.silent()
	})
}

// On a pipe a subscription ends with notifications/cancelled and its answer, and nothing
// follows.
func TestListenShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := changing(t)
		causes := addWait(srv, "wait")
		p := dial(t, srv)
		p.ask(listenTo("s", everything))
		p.send(modern(2, "tools/call", call("wait", `{}`)))
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- srv.Shutdown(ctx) }()
		synctest.Wait()
		require.JSONEq(t, about("s", "notifications/cancelled", `"requestId":"s","reason":"server_shutdown"`), p.recv())
		require.JSONEq(t, over("s"), p.recv())
		server.AddTool(srv, server.Tool{Name: "x"}, text("x"))
		p.silent()
		require.Empty(t, causes, "the other request goes on")
		cancel()
		require.ErrorIs(t, <-causes, mcp.ErrServerShutdown)
		require.NoError(t, <-done)
	})
}

// The end of the input ends subscriptions at once.
func TestListenEndOfInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := changing(t)
		began := time.Now()
		r, w := io.Pipe()
		out := &lockedBuffer{}
		served := make(chan error, 1)
		go func() { served <- srv.ServePipe(t.Context(), halfPipe{r, out}) }()
		_, err := io.WriteString(w, listenTo(1, `{"toolsListChanged":true}`)+"\n")
		require.NoError(t, err)
		synctest.Wait()
		w.Close()
		require.NoError(t, <-served)
		require.Zero(t, time.Since(began))
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		require.Len(t, lines, 3)
		require.JSONEq(t, about(1, "notifications/cancelled", `"requestId":1,"reason":"transport_close"`), lines[1])
		require.JSONEq(t, over(1), lines[2])
	})
}

// The client of package servertest subscribes.
func TestListenServertest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := changing(t)
		client := servertest.Connect(t, srv)
		s, err := client.Listen(t.Context(), mcp.SubscriptionFilter{
			ToolsListChanged: true, ResourceSubscriptions: []string{"test://a", "test://b"},
		})
		require.NoError(t, err)
		require.Equal(t, mcp.SubscriptionFilter{ToolsListChanged: true, ResourceSubscriptions: []string{"test://a"}}, s.Filter())
		srv.RemoveTools("hi")
		change, err := s.Next(t.Context())
		require.NoError(t, err)
		require.Equal(t, toolsChanged, change.Method)
		srv.ResourceUpdated("test://a")
		change, err = s.Next(t.Context())
		require.NoError(t, err)
		require.Equal(t, "test://a", change.URI)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = s.Next(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, s.Close())

		_, err = servertest.Connect(t, srv, servertest.Legacy(mcp.Version20251125)).Listen(t.Context(), mcp.SubscriptionFilter{})
		require.ErrorContains(t, err, "there is no method")

		s, err = client.Listen(t.Context(), mcp.SubscriptionFilter{ToolsListChanged: true})
		require.NoError(t, err)
		server.AddTool(srv, server.Tool{Name: "x"}, text("x"))
		synctest.Wait()
		require.NoError(t, srv.Shutdown(t.Context()))
		_, err = s.Next(t.Context())
		require.NoError(t, err, "what came before the end is there")
		_, err = s.Next(t.Context())
		require.ErrorIs(t, err, io.EOF)
	})
}

// A subscription over HTTP is an event stream, whatever the client accepts first.
func TestListenHTTP(t *testing.T) {
	srv := changing(t)
	url := listen(t, srv)
	headers := []string{"Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: subscriptions/listen"}

	for _, accept := range []string{"application/json", "text/html, application/json", "application/*"} {
		res, body := exchange(t, "POST", url, listenTo(7, everything), append(headers, "Accept: "+accept)...)
		require.Equal(t, http.StatusNotAcceptable, res.StatusCode)
		require.JSONEq(t, failure(7, -32600, "Accept must allow text/event-stream"), body)
	}
	res, body := exchange(t, "POST", url, listenTo(7, `{"toolsListChanged":0}`), headers...)
	require.Equal(t, http.StatusBadRequest, res.StatusCode, body)

	s := openStream(t, "POST", url, listenTo(0, everything), append(headers, "Accept: text/event-stream")...)
	require.Equal(t, "text/event-stream", s.Header.Get("Content-Type"))
	require.Equal(t, "no-cache", s.Header.Get("Cache-Control"))
	require.Equal(t, "no", s.Header.Get("X-Accel-Buffering"))
	require.JSONEq(t, acknowledged(0, everything), s.next())
	server.AddTool(srv, server.Tool{Name: "x"}, text("x"))
	require.JSONEq(t, about(0, toolsChanged, ""), s.next())
	require.NotContains(t, s.raw.String(), "\nid:", "there is no replay")

	other := openStream(t, "POST", url, listenTo("", `{"toolsListChanged":true}`), headers...)
	require.JSONEq(t, acknowledged("", `{"toolsListChanged":true}`), other.next())
	other.Body.Close()
	subscribed(t, srv, 1)

	conserved(t, srv)
	require.JSONEq(t, over(0), s.next())
	s.ends()
	require.NotContains(t, s.raw.String(), "notifications/cancelled", "the end of the stream says it")
}
