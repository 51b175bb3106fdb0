package server_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// byFullToken is an authenticator whose tokens are "issuer subject tenant expiry scope…": the expiry in
// seconds since 1970, 0 for never, and "-" stands for nothing.
var byFullToken = server.WithAuthenticator(auth.AuthenticatorFunc(func(ctx context.Context, c *auth.Caller) (*auth.Principal, error) {
	token := http.Header(c.Header).Get("Authorization")
	if c.Header == nil {
		token, _ = ctx.Value(whoKey{}).(string)
	}
	if token == "" {
		return nil, nil
	}
	parts := strings.Split(strings.ReplaceAll(token, "-", ""), " ")
	p := &auth.Principal{Issuer: parts[0], Subject: parts[1], Tenant: parts[2], Scopes: parts[4:]}
	if at, _ := strconv.ParseInt(parts[3], 10, 64); at != 0 {
		p.Expires = time.Unix(at, 0)
	}
	return p, nil
}))

const (
	annsToken    = "i ann acme 0"
	annRefreshed = "i ann acme 0 more scopes"
)

// strangers are tokens that differ from Ann's in one part of her identity.
var strangers = map[string]string{
	"another subject": "i bob acme 0", "another issuer": "j ann acme 0", "another tenant": "i ann umbrella 0", "no tenant": "i ann - 0", "nobody": "",
}

// A session, a task and a state belong to issuer, subject and tenant. A refreshed token keeps them. For
// all others they never were, which is counted and logged.
func TestBindingToThePrincipal(t *testing.T) {
	tel, err := telemetry.New()
	require.NoError(t, err)
	logs := &logRecorder{}
	srv := newTaskServer(t, byFullToken, server.WithTelemetry(tel), server.WithLogger(slog.New(logs)))
	addTwo(srv)
	jobs := addJob(srv, "work", false, server.TaskOptions{})
	url := listen(t, srv)
	session := begin(t, url, mcp.Version20250618, "Authorization: "+annsToken)
	ann := dialContext(t, as(annsToken), srv)
	task := taskID(t, ann.ask(withCaps(1, "tools/call", withTasks, call("work", `{}`))))
	job := <-jobs
	defer job.finish("")
	base := call("two", `{"a":1}`)
	asked, _ := round(t, ann, base)
	state := asked.RequestState

	ping := func(session, token string) (int, string) {
		res, body := exchange(t, "POST", url, legacy(2, "ping", ""), session, "Authorization: "+token)
		return res.StatusCode, body
	}
	status, never := ping("Mcp-Session-Id: nobodys", annsToken)
	require.Equal(t, 404, status)
	noTask := ann.ask(withCaps(1, "tasks/get", withTasks, `"taskId":"nobodys"`))
	noState := ann.ask(asking(1, "tools/call", retry(base, "bm9ib2R5cw")))
	for name, token := range strangers {
		t.Run(name, func(t *testing.T) {
			status, body := ping(session, token)
			require.Equal(t, 404, status)
			require.Equal(t, never, body)
			p := dialContext(t, as(token), srv)
			require.Equal(t, noTask, p.ask(withCaps(1, "tasks/get", withTasks, `"taskId":"`+task+`"`)))
			require.Equal(t, noState, p.ask(asking(1, "tools/call", retry(base, state))))
		})
	}
	t.Run("refreshed", func(t *testing.T) {
		status, body := ping(session, annRefreshed)
		require.Equal(t, 200, status, body)
		p := dialContext(t, as(annRefreshed), srv)
		require.Contains(t, p.ask(withCaps(1, "tasks/get", withTasks, `"taskId":"`+task+`"`)), `"status":"working"`)
		again, _ := round(t, p, retry(base, state, "one", accepted("1")))
		require.Contains(t, again.InputRequests, "two")
	})
	text := scrape(t, tel)
	for _, kind := range []string{"session", "task", "state"} {
		require.True(t, strings.Contains(text, `vitrine_auth_foreign_uses_total{kind="`+kind+`"} 5`), kind)
	}
	require.Len(t, logs.find("principal.foreign"), 15)
	for _, r := range logs.find("principal.foreign") {
		require.NotContains(t, r.attrs["session"], session)
		require.NotEqual(t, task, r.attrs["task"])
	}
}

// A refreshed token is honoured in the session that the old one has begun: with its scopes, and after the
// old one has expired.
func TestRefreshedTokenInASession(t *testing.T) {
	srv := newServer(t, byFullToken)
	server.AddTool(srv, server.Tool{Name: "do", Scopes: []string{"write"}}, text("done"))
	url := listen(t, srv)
	session := begin(t, url, mcp.Version20250618, "Authorization: i ann acme 1 read")
	ask := func(token string) string {
		_, body := exchange(t, "POST", url, legacy(2, "tools/call", call("do", `{}`)), session, "Authorization: "+token)
		return body
	}
	require.Contains(t, ask("i ann acme 1 read"), "this needs the scopes write")
	require.Contains(t, ask("i ann acme 0 read write"), "done")
	require.Contains(t, ask("i ann acme 0 read"), "this needs the scopes write", "each request counts with its own token")
}

// A subscription ends in order with its token, and says why. On a byte stream it goes on: nobody could send
// another token.
func TestListenEndsWithItsToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, err := telemetry.New()
		require.NoError(t, err)
		srv := newServer(t, byFullToken, server.WithTelemetry(tel), server.WithLimits(server.Limits{MaxRequestTimeout: 4 * time.Hour}))
		server.AddTool(srv, server.Tool{Name: "slow", Deadline: 3 * time.Hour}, func(ctx context.Context, _ *server.Call, _ none) (string, error) {
			select {
			case <-ctx.Done():
				return "", context.Cause(ctx)
			case <-time.After(2 * time.Hour):
				return "finished", nil
			}
		})
		token := "i ann acme " + strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10) // later than the deadline of requests
		began, headers := time.Now(), []string{"Authorization: " + token}
		listening := inBackground(srv, "POST", listenTo(7, `{"toolsListChanged":true}`),
			append(headers, "Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: subscriptions/listen")...)
		calling := inBackground(srv, "POST", modern(8, "tools/call", call("slow", `{}`)), append(headers, modernHeaders("tools/call", "slow")...)...)
		pipe := dialContext(t, as(token), srv)
		pipe.ask(listenTo(1, `{"toolsListChanged":true}`))

		body := (<-listening).Body.String()
		require.Equal(t, time.Hour, time.Since(began).Truncate(time.Second))
		require.Contains(t, body, `{"jsonrpc":"2.0","id":7,"result":{`)
		require.Contains(t, body, `"io.modelcontextprotocol/subscriptionId":7`)
		pipe.silent()
		time.Sleep(3 * time.Hour)
		require.Contains(t, (<-calling).Body.String(), "finished", "calls in progress run on")
		require.True(t, strings.Contains(scrape(t, tel), `vitrine_auth_streams_ended_total{reason="token_expired",stream="listen"} 1`))
	})
}

// The stream of a session that a client reads with GET ends with the token of that GET. A refreshed token
// reads on, from the last event.
func TestGetEndsWithItsToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, err := telemetry.New()
		require.NoError(t, err)
		srv := newServer(t, byFullToken, server.WithTelemetry(tel))
		server.AddTool(srv, server.Tool{Name: "hi"}, text("hello"))
		hello := <-inBackground(srv, "POST", legacy(1, "initialize", `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}`),
			"Authorization: "+annsToken)
		session := "Mcp-Session-Id: " + hello.Header().Get("Mcp-Session-Id")
		<-inBackground(srv, "POST", notice("notifications/initialized", ""), session, "Authorization: "+annsToken)
		get := func(headers ...string) string {
			began := time.Now()
			token := "Authorization: i ann acme " + strconv.FormatInt(began.Add(time.Minute).Unix(), 10)
			answer := <-inBackground(srv, "GET", "", append(headers, session, token)...)
			require.Equal(t, 200, answer.Code, answer.Body)
			require.Equal(t, time.Minute, time.Since(began).Truncate(time.Second))
			return answer.Body.String()
		}
		id := eventID(t, get())
		server.AddTool(srv, server.Tool{Name: "more"}, text(""))
		require.Contains(t, get("Last-Event-Id: "+id), toolsChanged)
		require.True(t, strings.Contains(scrape(t, tel), `vitrine_auth_streams_ended_total{reason="token_expired",stream="get"} 2`))
		require.NoError(t, srv.Shutdown(t.Context()))
	})
}

// inBackground sends an HTTP exchange without a connection, and returns its response when it has ended.
func inBackground(srv *server.Server, method, body string, headers ...string) <-chan *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	ended := make(chan *httptest.ResponseRecorder, 1)
	go func() {
		w := httptest.NewRecorder()
		srv.Handler().ServeHTTP(w, r)
		ended <- w
	}()
	return ended
}

// eventID returns the id of the last event of a stream.
func eventID(t *testing.T, body string) string {
	t.Helper()
	at := strings.LastIndex(body, "id: ")
	require.GreaterOrEqual(t, at, 0, body)
	id, _, _ := strings.Cut(body[at+len("id: "):], "\n")
	return id
}
