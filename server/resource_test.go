package server_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
)

// uri is the members of the params of a resources/read.
func uri(of string) string { return fmt.Sprintf(`"uri":%q`, of) }

// notFound is the answer to a read of what is not there.
func notFound(code int, uri string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"error":{"code":%d,"message":"there is no resource %s","data":{"uri":%q}}}`,
		code, strings.ReplaceAll(fmt.Sprintf("%q", uri), `"`, `\"`), uri)
}

// reader is a resource handler that ignores its call and answers with out.
func reader[Out server.Readable](out Out) server.ResourceHandler[Out] {
	return func(context.Context, *server.Call, string) (Out, error) { return out, nil }
}

// echoVars is a template handler that shows its variables.
func echoVars(_ context.Context, _ *server.Call, _ string, vars map[string]string) (string, error) {
	return fmt.Sprint(vars), nil
}

func TestReadResource(t *testing.T) {
	srv := newServer(t)
	ttl := int64(7)
	shared := &mcp.ReadResourceResult{
		Contents:   []mcp.ResourceContents{{Text: "a"}, {URI: "x:part", MIMEType: "a/b", Blob: []byte{1}}, {URI: "x:empty"}},
		CacheHint:  mcp.CacheHint{TTL: &ttl, Scope: mcp.CachePrivate},
		ResultMeta: mcp.ResultMeta{Meta: mcp.Meta{"example.com/k": 1}},
	}
	server.AddResource(srv, server.Resource{URI: "x:text", Name: "n", MIMEType: "text/plain"}, reader("hello"))
	server.AddResource(srv, server.Resource{URI: "x:bytes", Name: "n"}, reader([]byte{0, 1}))
	server.AddResource(srv, server.Resource{URI: "x:no-bytes", Name: "n"}, reader([]byte(nil)))
	server.AddResource(srv, server.Resource{URI: "x:empty", Name: "n"}, reader(""))
	server.AddResource(srv, server.Resource{URI: "x:parts", Name: "n"}, reader(shared.Contents))
	server.AddResource(srv, server.Resource{URI: "x:whole", Name: "n", MIMEType: "c/d", TTL: time.Hour}, reader(shared))
	server.AddResource(srv, server.Resource{URI: "x:hint", Name: "n", TTL: 1500 * time.Millisecond, Scope: mcp.CachePrivate}, reader("h"))
	server.AddStaticResource(srv, server.Resource{URI: "x:static", Name: "n", MIMEType: "text/plain"}, "static")
	server.AddStaticResource(srv, server.Resource{URI: "x:blob", Name: "n"}, []byte{2})
	server.AddResource(srv, server.Resource{URI: "x:uri", Name: "n"},
		func(_ context.Context, call *server.Call, uri string) (string, error) {
			return uri + call.Route.Target, nil
		})

	const stale = `"ttlMs":0,"cacheScope":"public"`
	const parts = `{"uri":"x:part","mimeType":"a/b","blob":"AQ=="},{"uri":"x:empty"`
	for uri, want := range map[string]struct{ contents, hint, meta string }{
		"x:text":     {`{"uri":"x:text","mimeType":"text/plain","text":"hello"}`, stale, ""},
		"x:bytes":    {`{"uri":"x:bytes","blob":"AAE="}`, stale, ""},
		"x:no-bytes": {`{"uri":"x:no-bytes","blob":""}`, stale, ""},
		"x:empty":    {`{"uri":"x:empty","text":""}`, stale, ""},
		"x:parts":    {`{"uri":"x:parts","text":"a"},` + parts + `,"text":""}`, stale, ""},
		"x:whole":    {`{"uri":"x:whole","mimeType":"c/d","text":"a"},` + parts + `,"mimeType":"c/d","text":""}`, `"ttlMs":7,"cacheScope":"private"`, `"example.com/k":1`},
		"x:hint":     {`{"uri":"x:hint","text":"h"}`, `"ttlMs":1500,"cacheScope":"private"`, ""},
		"x:static":   {`{"uri":"x:static","mimeType":"text/plain","text":"static"}`, stale, ""},
		"x:blob":     {`{"uri":"x:blob","blob":"Ag=="}`, stale, ""},
		"x:uri":      {`{"uri":"x:uri","text":"x:uri"}`, stale, ""},
	} {
		t.Run(uri, func(t *testing.T) {
			params := fmt.Sprintf(`"uri":%q`, uri)
			contents, meta, own := `"contents":[`+want.contents+`]`, serverMeta, ""
			if want.meta != "" {
				meta = strings.Replace(serverMeta, `"_meta":{`, `"_meta":{`+want.meta+`,`, 1)
				own = `,"_meta":{` + want.meta + `}`
			}
			for range 2 { // what is shared is not changed
				require.JSONEq(t, result(1, contents+`,`+want.hint+`,`+meta), dial(t, srv).ask(modern(1, "resources/read", params)))
				require.JSONEq(t, result(1, contents+own), oldPipe(t, srv, mcp.Version20251125).ask(legacy(1, "resources/read", params)))
			}
		})
	}
	require.Empty(t, shared.Contents[0].URI, "the handler's result is not the server's to change")
	resources, err := servertest.Connect(t, srv).ListResources(t.Context())
	require.NoError(t, err)
	require.Equal(t, mcp.Resource{URI: "x:static", Name: "n", MIMEType: "text/plain", Size: 6}, resources[7])
}

func TestReadFailures(t *testing.T) {
	internal := failure(1, -32603, "internal error")
	withData := func(code int, message, data string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"error":{"code":%d,"message":%q,"data":%s}}`, code, message, data)
	}
	fail := func(err error) func() (*mcp.ReadResourceResult, error) {
		return func() (*mcp.ReadResourceResult, error) { return nil, err }
	}
	answer := func(c ...mcp.ResourceContents) func() (*mcp.ReadResourceResult, error) {
		return func() (*mcp.ReadResourceResult, error) { return &mcp.ReadResourceResult{Contents: c}, nil }
	}
	gone := mcp.NewError(mcp.CodeResourceNotFound, "it is gone")
	for _, tt := range []struct {
		name        string
		h           func() (*mcp.ReadResourceResult, error)
		modern, old string
	}{
		{"not found", fail(server.ErrResourceNotFound), notFound(-32602, "x:y"), notFound(-32002, "x:y")},
		{"not found, wrapped", fail(fmt.Errorf("row 7: %w", server.ErrResourceNotFound)), notFound(-32602, "x:y"), notFound(-32002, "x:y")},
		{"not found, in other words", fail(gone), withData(-32602, "it is gone", `{"uri":"x:y"}`), withData(-32002, "it is gone", `{"uri":"x:y"}`)},
		{"not found, other data", fail(gone.WithData(1)), withData(-32602, "it is gone", `1`), withData(-32002, "it is gone", `1`)},
		{"invalid params stay", fail(mcp.NewError(mcp.CodeInvalidParams, "no")), failure(1, -32602, "no"), failure(1, -32602, "no")},
		{"protocol error", fail(mcp.NewError(-31000, "no")), failure(1, -31000, "no"), failure(1, -31000, "no")},
		{"any other", fail(errors.New("secret")), internal, internal},
		{"panic", func() (*mcp.ReadResourceResult, error) { panic("secret") }, internal, internal},
		{"nothing", fail(nil), internal, internal},
		{"no contents", answer(), internal, internal},
		{"text and blob", answer(mcp.ResourceContents{Text: "a", Blob: []byte{}}), internal, internal},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := newServer(t)
			server.AddResource(srv, server.Resource{URI: "x:y", Name: "n"},
				func(context.Context, *server.Call, string) (*mcp.ReadResourceResult, error) { return tt.h() })
			server.AddResourceTemplate(srv, server.ResourceTemplate{URITemplate: "t:{id}", Name: "n"},
				func(context.Context, *server.Call, string, map[string]string) (*mcp.ReadResourceResult, error) {
					return tt.h()
				})
			p := oldPipe(t, srv, mcp.Version20251125)
			require.JSONEq(t, tt.modern, p.ask(modern(1, "resources/read", uri("x:y"))))
			require.JSONEq(t, tt.old, p.ask(legacy(1, "resources/read", uri("x:y"))))
			ofTemplate := strings.NewReplacer("x:y", "t:1").Replace
			require.JSONEq(t, ofTemplate(tt.modern), p.ask(modern(1, "resources/read", uri("t:1"))))
			require.JSONEq(t, ofTemplate(tt.old), p.ask(legacy(1, "resources/read", uri("t:1"))))
		})
	}
}

// A code that modern clients do not know is translated, wherever it comes from.
func TestNotFoundOfATool(t *testing.T) {
	srv := newServer(t)
	server.AddTool(srv, server.Tool{Name: "x"}, func(context.Context, *server.Call, none) (string, error) {
		return "", fmt.Errorf("open: %w", server.ErrResourceNotFound)
	})
	p := oldPipe(t, srv, mcp.Version20250618)
	require.JSONEq(t, failure(1, -32602, "the resource does not exist"), p.ask(modern(1, "tools/call", call("x", `{}`))))
	require.JSONEq(t, failure(1, -32002, "the resource does not exist"), p.ask(legacy(1, "tools/call", call("x", `{}`))))
}

func TestWhichResourceIsRead(t *testing.T) {
	srv := newServer(t)
	template := func(uriTemplate, label string) {
		server.AddResourceTemplate(srv, server.ResourceTemplate{URITemplate: uriTemplate, Name: "n", MIMEType: "a/b"},
			func(_ context.Context, _ *server.Call, uri string, vars map[string]string) (string, error) {
				return fmt.Sprint(label, " ", uri, " ", vars), nil
			})
	}
	template("x://{a}/first", "1")
	template("x://{a}/{b}", "2")
	template("x://{+rest}", "3")
	server.AddResource(srv, server.Resource{URI: "x://direct/first", Name: "n"}, reader("direct"))
	long := "x://" + strings.Repeat("a", 4093)
	for uri, want := range map[string]string{
		"x://direct/first": "direct",
		"x://a/first":      "1 x://a/first map[a:a]",
		"x://a/second":     "2 x://a/second map[a:a b:second]",
		"x://a/b/c":        "3 x://a/b/c map[rest:a/b/c]",
		"x://a%2Fb/first":  "1 x://a%2Fb/first map[a:a/b]",
		long[:4096]:        "3 " + long[:4096] + " map[rest:" + long[4:4096] + "]",
	} {
		got, err := servertest.Connect(t, srv).ReadResource(t.Context(), uri)
		require.NoError(t, err)
		require.Equal(t, want, got.Contents[0].Text)
		require.Equal(t, uri, got.Contents[0].URI)
		if want != "direct" {
			require.Equal(t, "a/b", got.Contents[0].MIMEType)
		}
	}
	p := oldPipe(t, srv, mcp.Version20251125)
	for _, missing := range []string{"y://a", "x://a b", "X://a/first", ""} {
		require.JSONEq(t, notFound(-32602, missing), p.ask(modern(1, "resources/read", uri(missing))))
		require.JSONEq(t, notFound(-32002, missing), p.ask(legacy(1, "resources/read", uri(missing))))
	}
	require.JSONEq(t, failure(1, -32602, "params.uri is longer than 4096 bytes"), p.ask(modern(1, "resources/read", uri(long))))
	require.JSONEq(t, failure(1, -32602, "params.uri is missing"), p.ask(modern(1, "resources/read", "")))
	require.JSONEq(t, failure(1, -32602, "params.uri is missing"), p.ask(legacy(1, "resources/read", `"uri":1`)))

	read := func() string { return dial(t, srv).ask(modern(1, "resources/read", uri("x://direct/first"))) }
	srv.RemoveResources("x://direct/first", "x://nope")
	require.Contains(t, read(), `"text":"1 x:`)
	srv.RemoveResourceTemplates("x://{a}/first", "x://{nope}")
	require.Contains(t, read(), `"text":"2 x:`)
	server.AddResourceTemplate(srv, server.ResourceTemplate{URITemplate: "x://{a}/first", Name: "n"}, echoVars)
	require.Contains(t, read(), `"text":"2 x:`, "it is the last now")
}

func TestResourceRegistrationErrors(t *testing.T) {
	srv := newServer(t)
	server.AddStaticResource(srv, server.Resource{URI: "x:taken", Name: "n"}, "")
	server.AddResourceTemplate(srv, server.ResourceTemplate{URITemplate: "x:{taken}", Name: "n"}, echoVars)
	noMiddleware := []middleware.Middleware{nil}
	for _, tt := range []struct {
		name     string
		resource server.Resource
		h        server.ResourceHandler[string]
		want     string
	}{
		{"no URI", server.Resource{Name: "n"}, reader(""), `resource URI "" is not an absolute URI`},
		{"relative URI", server.Resource{URI: "/a", Name: "n"}, reader(""), "is not an absolute URI"},
		{"bad URI", server.Resource{URI: "x:\x00", Name: "n"}, reader(""), "is not an absolute URI"},
		{"long URI", server.Resource{URI: "x:" + strings.Repeat("a", 4095), Name: "n"}, reader(""), "longer than 4096 bytes"},
		{"no name", server.Resource{URI: "x:y"}, reader(""), `resource "x:y": it needs a name`},
		{"no handler", server.Resource{URI: "x:y", Name: "n"}, nil, `resource "x:y": the handler is nil`},
		{"nil middleware", server.Resource{URI: "x:y", Name: "n", Middleware: noMiddleware}, reader(""), "a middleware is nil"},
		{"negative TTL", server.Resource{URI: "x:y", Name: "n", TTL: -1}, reader(""), "the TTL is negative"},
		{"unknown scope", server.Resource{URI: "x:y", Name: "n", Scope: "shared"}, reader(""), `there is no cache scope "shared"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			require.ErrorContains(t, server.TryAddResource(srv, tt.resource, tt.h), tt.want)
			require.Panics(t, func() { server.AddResource(srv, tt.resource, tt.h) })
		})
	}
	complete := map[string]server.CompleteFunc{"b": server.CompleteFrom("1")}
	for _, tt := range []struct {
		name     string
		template server.ResourceTemplate
		h        server.TemplateHandler[string]
		want     string
	}{
		{"bad template", server.ResourceTemplate{URITemplate: "x:{", Name: "n"}, echoVars, `resource template "x:{": template: incomplete expression`},
		{"variable twice", server.ResourceTemplate{URITemplate: "x:{a}{a}", Name: "n"}, echoVars, `variable "a" occurs twice`},
		{"no name", server.ResourceTemplate{URITemplate: "x:{a}"}, echoVars, `it needs a name`},
		{"no handler", server.ResourceTemplate{URITemplate: "x:{a}", Name: "n"}, nil, "the handler is nil"},
		{"nil middleware", server.ResourceTemplate{URITemplate: "x:{a}", Name: "n", Middleware: noMiddleware}, echoVars, "a middleware is nil"},
		{"completes nothing", server.ResourceTemplate{URITemplate: "x:{a}", Name: "n", Complete: complete}, echoVars, `there is no variable "b" to complete`},
		{"negative TTL", server.ResourceTemplate{URITemplate: "x:{a}", Name: "n", TTL: -1}, echoVars, "the TTL is negative"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			require.ErrorContains(t, server.TryAddResourceTemplate(srv, tt.template, tt.h), tt.want)
			require.Panics(t, func() { server.AddResourceTemplate(srv, tt.template, tt.h) })
		})
	}
	require.NotContains(t, dial(t, srv).ask(modern(1, "server/discover", "")), "completions", "what was refused announces nothing")
}

// The middlewares of a resource wrap its reads; it has no label of its own.
func TestResourceMiddleware(t *testing.T) {
	j := &journal{}
	srv := newServer(t, server.WithMiddleware(j.middleware("a")))
	j.take()
	own := []middleware.Middleware{j.middleware("r")}
	deadline := func(_ context.Context, call *server.Call, _ string) (string, error) {
		return fmt.Sprint(call.Deadline().Sub(call.ArrivedAt)) + call.Route.Target, nil
	}
	server.AddResource(srv, server.Resource{URI: "x:y", Name: "n", Middleware: own, Deadline: 7 * time.Second}, deadline)
	server.AddResourceTemplate(srv, server.ResourceTemplate{URITemplate: "t:{id}", Name: "n", Middleware: own, Deadline: 7 * time.Second},
		func(ctx context.Context, call *server.Call, uri string, _ map[string]string) (string, error) {
			return deadline(ctx, call, uri)
		})
	require.Equal(t, []string{"build r", "build a", "build r", "build a"}, j.take())
	client := servertest.Connect(t, srv)
	for _, uri := range []string{"x:y", "t:1"} {
		got, err := client.ReadResource(t.Context(), uri)
		require.NoError(t, err)
		require.Equal(t, "7s", got.Contents[0].Text)
		require.Equal(t, []string{"a before", "r before", "r after", "a after"}, j.take())
	}
	_, err := client.ReadResource(t.Context(), "nope:")
	require.Error(t, err)
	require.Equal(t, []string{"a before", "a after"}, j.take())
}

// Over HTTP a missing resource is a bad request for a modern client and an ordinary answer for a
// legacy one. The URI is compared with the header.
func TestReadOverHTTP(t *testing.T) {
	srv := newServer(t)
	server.AddStaticResource(srv, server.Resource{URI: "x:ü", Name: "n"}, "umlaut")
	url := listen(t, srv)
	head := []string{"Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: resources/read"}
	res, got := exchange(t, "POST", url, modern(1, "resources/read", uri("x:ü")), append(head, "Mcp-Name: =?base64?eDrDvA==?=")...)
	require.Equal(t, 200, res.StatusCode, got)
	require.Contains(t, got, "umlaut")
	res, got = exchange(t, "POST", url, modern(1, "resources/read", uri("x:nope")), append(head, "Mcp-Name: x:nope")...)
	require.Equal(t, 400, res.StatusCode)
	require.JSONEq(t, notFound(-32602, "x:nope"), got)
	_, got = exchange(t, "POST", url, modern(1, "resources/read", uri("x:nope")), append(head, "Mcp-Name: x:other")...)
	require.JSONEq(t, failure(1, -32020, "Mcp-Name differs from params.uri"), got)
}

// A handler that returns because it was cancelled has not failed.
func TestCancelledRead(t *testing.T) {
	logs := &logRecorder{}
	srv := newServer(t, server.WithLogger(slog.New(logs)))
	started := make(chan struct{})
	server.AddResource(srv, server.Resource{URI: "x:y", Name: "n"}, func(ctx context.Context, _ *server.Call, _ string) (string, error) {
		close(started)
		<-ctx.Done()
		return "", ctx.Err()
	})
	p := dial(t, srv)
	p.send(modern(1, "resources/read", uri("x:y")))
	<-started
	p.send(cancelled(1))
	require.NoError(t, p.hangUp())
	require.Empty(t, logs.find("handler.error"))
}
