package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// addAble adds a tool that says what its client has declared.
func addAble(srv *server.Server) {
	server.AddTool(srv, server.Tool{Name: "able"}, func(_ context.Context, call *server.Call, _ none) (string, error) {
		_, err := call.Roots("k")
		if errors.Is(err, mcp.ErrNotDeclared) {
			_, declared := call.Extension(mcp.ExtensionTasks)
			return fmt.Sprint("roots false, tasks ", declared), nil
		}
		return "", err
	})
}

// The capabilities of a modern client are those of the request. Those of other requests on the
// same connection do not count.
func TestCapabilitiesAreOfTheRequest(t *testing.T) {
	srv := newTaskServer(t)
	addAble(srv)
	const nothing = `"text":"roots false, tasks false"`
	for name, open := range map[string]func(t *testing.T) func(frame string) string{
		"pipe": func(t *testing.T) func(string) string { return dial(t, srv).ask },
		"legacy pipe": func(t *testing.T) func(string) string {
			p := dial(t, srv)
			p.initializeWith(`"roots":{},` + withTasks)
			return p.ask
		},
		"HTTP connection": func(t *testing.T) func(string) string { return keepAlive(t, srv, "able") },
	} {
		t.Run(name, func(t *testing.T) {
			ask := open(t)
			able := func(capabilities string) string {
				return ask(withCaps(1, "tools/call", capabilities, call("able", `{}`)))
			}
			require.Contains(t, able(""), nothing)
			require.Contains(t, able(`"roots":{},`+withTasks), `"method":"roots/list"`)
			require.Contains(t, able(""), nothing)
			require.Contains(t, able(withTasks), "roots false, tasks true")
			require.Contains(t, able(""), nothing)
		})
	}
}

// keepAlive returns a client that sends modern requests over one HTTP connection; those
// that name something name one tool.
func keepAlive(t *testing.T, srv *server.Server, tool string) func(frame string) string {
	url, connections := listen(t, srv), &http.Transport{MaxConnsPerHost: 1}
	t.Cleanup(connections.CloseIdleConnections)
	return func(frame string) string {
		t.Helper()
		var f struct{ Method string }
		require.NoError(t, json.Unmarshal([]byte(frame), &f))
		req, err := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(frame))
		require.NoError(t, err)
		req.Header = http.Header{
			"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
			"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {f.Method}, "Mcp-Name": {tool},
		}
		res, err := (&http.Client{Transport: connections}).Do(req)
		require.NoError(t, err)
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return string(body)
	}
}

// The answers to a modern client do not depend on other requests on the connection.
func TestListsAreOfTheServer(t *testing.T) {
	srv := changing(t)
	addAble(srv)
	addLogs(srv)
	methods := []string{"server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list"}
	for name, open := range map[string]func(t *testing.T) func(frame string) string{
		"pipe":            func(t *testing.T) func(string) string { return dial(t, srv).ask },
		"HTTP connection": func(t *testing.T) func(string) string { return keepAlive(t, srv, "able") },
	} {
		t.Run(name, func(t *testing.T) {
			ask := open(t)
			fresh := map[string]string{}
			for _, method := range methods {
				fresh[method] = dial(t, srv).ask(modern(1, method, ""))
				require.Contains(t, fresh[method], `"result"`)
			}
			before := []string{
				modern(1, "tools/call", call("able", `{}`)),
				withCaps(1, "tools/call", `"roots":{},`+withTasks, call("able", `{}`)),
				modern(1, "tools/list", "", withLevel(`"debug"`), `"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}`),
				modern(1, "tools/list", `"cursor":"x"`),
				modern(1, "no/such", ""),
			}
			if name == "pipe" {
				before = append(before, legacy(1, "initialize",
					`"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"old","version":"9"}`),
					legacy(1, "tools/list", ""), legacy(1, "logging/setLevel", `"level":"debug"`))
			}
			for _, earlier := range before {
				ask(earlier)
				for _, method := range methods {
					require.Equal(t, fresh[method], ask(modern(1, method, "")), "%s after %s", method, earlier)
				}
			}
		})
	}
}

// A client need not name itself, and nothing depends on its name.
func TestClientInfoDecidesNothing(t *testing.T) {
	srv := changing(t)
	addAble(srv)
	const key = `"io.modelcontextprotocol/clientInfo":`
	post := keepAlive(t, srv, "able")
	p := dial(t, srv)
	for _, request := range []struct{ method, params string }{
		{"server/discover", ""}, {"tools/list", ""}, {"tools/call", call("able", `{}`)},
	} {
		anonymous := p.ask(modern(1, request.method, request.params))
		require.Contains(t, anonymous, `"result"`)
		require.Equal(t, anonymous, post(modern(1, request.method, request.params)))
		for _, info := range []string{
			`{"name":"c","version":"1"}`, `{"name":"test","version":"1"}`, `{"name":"","version":""}`, `{}`,
			`{"name":"admin","version":"1","title":"Root","websiteUrl":"javascript:alert(1)","role":"admin"}`,
		} {
			frame := modern(1, request.method, request.params, key+info)
			require.Equal(t, anonymous, p.ask(frame), info)
			require.Equal(t, anonymous, post(frame), info)
		}
	}
}

// On a pipe a modern client gets answers, and notifications about its requests. It gets no
// requests. The server sends notifications/cancelled only at the end of a subscription.
func TestModernClientsAreNotAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newServer(t, server.WithLimits(server.Limits{RequestTimeout: time.Minute}))
		addAble(srv)
		causes := addWait(srv, "wait")
		p := dial(t, srv)
		p.send(asking("asks", "tools/call", call("able", `{}`)), modern("late", "tools/call", call("wait", `{}`)))
		require.ErrorIs(t, <-causes, mcp.ErrDeadline)
		p.send(modern("gone", "tools/call", call("wait", `{}`)))
		synctest.Wait()
		p.send(cancelled("gone"))
		require.ErrorIs(t, <-causes, mcp.ErrClientCancelled)
		p.send(modern("last", "tools/call", call("wait", `{}`)))
		synctest.Wait()
		impatient, cancel := context.WithCancel(t.Context())
		cancel()
		_ = srv.Shutdown(impatient) // says that it was
		require.ErrorIs(t, <-causes, mcp.ErrServerShutdown)
		answered := map[string]bool{}
		for line := range p.lines {
			var f frame
			require.NoError(t, json.Unmarshal([]byte(line), &f))
			require.Empty(t, f.Method, line)
			answered[strings.Trim(string(f.ID), `"`)] = true
		}
		require.Equal(t, map[string]bool{"asks": true, "late": true, "last": true}, answered)
	})
}

// Unknown metadata of a client is ignored, because later revisions and extensions will add some.
func TestUnknownMetadataIsIgnored(t *testing.T) {
	srv := changing(t)
	addAble(srv)
	p := dial(t, srv)
	declared := func(capabilities string, meta ...string) string {
		frame := modern(1, "tools/call", call("able", `{}`), meta...)
		return p.ask(strings.Replace(frame, `clientCapabilities":{}`, `clientCapabilities":`+capabilities, 1))
	}
	plain := declared(`{}`)
	require.Contains(t, plain, "roots false")
	for _, capabilities := range []string{
		`{"telepathy":{}}`, `{"telepathy":7,"Roots":{}}`, `{"sampling":{"smell":{}},"experimental":{"x":[1]}}`,
		`{"extensions":{"com.example/unknown":{"deep":[{}]}}}`,
	} {
		require.Equal(t, plain, declared(capabilities), capabilities)
	}
	require.Contains(t, declared(`{"telepathy":{},"roots":{"telepathy":true}}`), `"method":"roots/list"`)
	for _, meta := range []string{
		`"com.example/unknown":{"a":[1]}`, `"unknown":null`, `"io.modelcontextprotocol/ofTheFuture":{}`,
		`"traceparent":"not a trace","tracestate":7`, `"":0`,
	} {
		require.Equal(t, plain, declared(`{}`, meta), meta)
	}
}
