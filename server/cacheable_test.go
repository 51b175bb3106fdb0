package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
)

// Every cacheable result has a TTL and a scope in the modern era, and no other result has them.
func TestCacheableResults(t *testing.T) {
	bare := func(next middleware.Handler) middleware.Handler {
		return func(ctx context.Context, req *middleware.Request) (mcp.Result, error) {
			if req.Meta()["bare"] != nil { // a middleware that answers by itself, and knows nothing of caches
				return &mcp.ListToolsResult{}, nil
			}
			return next(ctx, req)
		}
	}
	srv := changing(t, server.WithPageSize(1), server.WithMiddleware(bare))
	server.AddResource(srv, server.Resource{URI: "test://fresh", Name: "fresh", TTL: time.Minute, Scope: mcp.CachePrivate}, reader("x"))
	server.AddTool(srv, server.Tool{Name: "again"}, text("hello"))
	p := dial(t, srv)
	members := func(method, params string, meta ...string) (ttl, scope jsontext.Value, cursor string) {
		var answer struct {
			Result map[string]jsontext.Value
		}
		line := p.ask(modern(1, method, params, meta...))
		require.NoError(t, json.Unmarshal([]byte(line), &answer))
		require.NotEmpty(t, answer.Result, line)
		if next := answer.Result["nextCursor"]; next != nil {
			require.NoError(t, json.Unmarshal(next, &cursor))
		}
		return answer.Result["ttlMs"], answer.Result["cacheScope"], cursor
	}
	hinted := func(method string, ttl, scope jsontext.Value) {
		t.Helper()
		require.Regexp(t, `^(0|[1-9]\d*)$`, string(ttl), "%s: milliseconds, an integer that is not negative", method)
		require.Regexp(t, `^"(public|private)"$`, string(scope), method)
	}
	for _, tt := range []struct{ method, params string }{
		{"server/discover", ""}, {"tools/list", ""}, {"prompts/list", ""}, {"resources/list", ""},
		{"resources/templates/list", ""}, {"resources/read", uri("test://a")}, {"resources/read", uri("test://item/1")},
		{"resources/read", uri("test://fresh")},
	} {
		_, first, _ := members(tt.method, tt.params)
		for params := tt.params; ; {
			ttl, scope, cursor := members(tt.method, params)
			hinted(tt.method, ttl, scope)
			require.Equal(t, first, scope, "all pages of %s", tt.method)
			if cursor == "" {
				break
			}
			params = fmt.Sprintf(`"cursor":%q`, cursor)
		}
	}
	ttl, scope, _ := members("tools/list", "", `"bare":1`)
	hinted("tools/list", ttl, scope)
	for _, tt := range []struct{ method, params string }{
		{"tools/call", call("hi", `{}`)}, {"prompts/get", `"name":"greet"`},
	} {
		ttl, scope, _ := members(tt.method, tt.params)
		require.Nil(t, ttl, tt.method)
		require.Nil(t, scope, tt.method)
	}
}

// A read that asks a question is not cacheable, whatever the resource says.
func TestQuestionsAreNotCacheable(t *testing.T) {
	srv := newServer(t)
	server.AddResource(srv, server.Resource{URI: "x:asks", Name: "n", TTL: time.Hour, Scope: mcp.CachePublic},
		func(_ context.Context, call *server.Call, _ string) (string, error) {
			_, err := call.Roots("k")
			return "known", err
		})
	p := dial(t, srv)
	asked := p.ask(asking(1, "resources/read", uri("x:asks")))
	require.Contains(t, asked, `"resultType":"input_required"`)
	require.NotContains(t, asked, "ttlMs")
	require.NotContains(t, asked, "cacheScope")
	var f frame
	require.NoError(t, json.Unmarshal([]byte(asked), &f))
	again := retryParams(t, uri("x:asks"), f.Result, func(servertest.Question) string { return `{"roots":[]}` })
	require.Contains(t, p.ask(asking(2, "resources/read", again)), `"ttlMs":3600000,"cacheScope":"public"`)
}
