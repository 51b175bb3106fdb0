package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

type addIn struct {
	A int `json:"a"`
	B int `json:"b,omitzero"`
}

type addOut struct {
	Sum int `json:"sum"`
}

// newThing returns a server with the extension and its method com.example/thing/add.
func newThing(t *testing.T, opts ...server.Option) *server.Server {
	srv := newServer(t, opts...)
	server.AddExtension(srv, server.Extension{ID: thing})
	server.AddMethod(srv, server.Method{Name: thing + "/add", Extension: thing},
		func(_ context.Context, _ *server.Call, in addIn) (addOut, error) { return addOut{in.A + in.B}, nil })
	return srv
}

func TestMethod(t *testing.T) {
	srv := newThing(t)
	const add = thing + "/add"
	p := dial(t, srv)
	require.JSONEq(t, result(1, `"sum":5,`+serverMeta), p.ask(withCaps(1, add, declares(thing), `"a":2,"b":3`)))
	require.JSONEq(t, `{"jsonrpc":"2.0","id":2,"error":{"code":-32021,"message":"the client must declare the extension com.example/thing",
		"data":{"requiredCapabilities":{"extensions":{"com.example/thing":{}}}}}}`, p.ask(modern(2, add, `"a":2`)))

	old := dial(t, srv)
	old.initializeWith(declares(thing))
	require.JSONEq(t, result(1, `"sum":5`), old.ask(legacy(1, add, `"a":2,"b":3`)))
	older := dial(t, srv)
	older.initializeWith("")
	require.JSONEq(t, failure(1, -32601, "this is for clients with the extension com.example/thing"), older.ask(legacy(1, add, `"a":2`)))
}

// The status of an HTTP answer repeats the code.
func TestMethodOverHTTP(t *testing.T) {
	url := listen(t, newThing(t))
	headers := []string{"Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: " + thing + "/add"}
	res, _ := exchange(t, "POST", url, withCaps(1, thing+"/add", declares(thing), `"a":2`), headers...)
	require.Equal(t, http.StatusOK, res.StatusCode)
	res, got := exchange(t, "POST", url, modern(1, thing+"/add", `"a":2`), headers...)
	require.Equal(t, http.StatusBadRequest, res.StatusCode)
	require.Contains(t, got, "-32021")
}

func TestMethodParams(t *testing.T) {
	srv := newServer(t)
	type meta struct {
		Meta map[string]any `json:"_meta,omitempty"`
	}
	server.AddMethod(srv, server.Method{Name: "x/strict"}, func(_ context.Context, _ *server.Call, in addIn) (addOut, error) {
		return addOut{in.A}, nil
	})
	server.AddMethod(srv, server.Method{Name: "x/map"}, func(_ context.Context, _ *server.Call, in map[string]int) (addOut, error) {
		return addOut{len(in)}, nil
	})
	server.AddMethod(srv, server.Method{Name: "x/meta"}, func(_ context.Context, _ *server.Call, in meta) (addOut, error) {
		return addOut{len(in.Meta)}, nil
	})
	p := dial(t, srv)
	p.initialize("2025-11-25")
	for _, tt := range []struct{ method, params, want string }{
		{"x/strict", `{"a":1}`, `"result":{"sum":1}`},
		{"x/strict", `{"a":1,"_meta":{"k":1}}`, `"result":{"sum":1}`},
		{"x/strict", `{"b":1}`, `params are not valid: missing required property \"a\"`},
		{"x/strict", `{"a":1,"c":2}`, `params are not valid: unknown property \"c\"`},
		{"x/strict", `{"a":"one"}`, `"code":-32602`},
		{"x/strict", `[1,2]`, `params must be an object`},
		{"x/map", `{"a":1,"c":2}`, `"result":{"sum":2}`},
		{"x/map", `{"a":1,"_meta":{}}`, `"result":{"sum":1}`},
		{"x/map", ` { "_meta" : {} , "a" : 1 , "b" : 2 } `, `"result":{"sum":2}`},
		{"x/map", ` { "a" : 1 , "\u005fmeta" : {"a":7} , "b" : 2 } `, `"result":{"sum":2}`},
		{"x/map", `{"_meta":{}}`, `"result":{"sum":0}`},
		{"x/map", `{"a":1,"_meta":{},"a":2}`, `duplicate member name`},
		{"x/meta", `{"_meta":{"k":1,"l":2}}`, `"result":{"sum":2}`},
	} {
		answer := p.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, tt.method, tt.params))
		require.Contains(t, answer, tt.want, "%s %s", tt.method, tt.params)
	}
	require.Contains(t, p.ask(`{"jsonrpc":"2.0","id":1,"method":"x/map"}`), `"result":{"sum":0}`)
	require.Contains(t, p.ask(modern(1, "x/map", `"a":1`)), `"sum":1`, "_meta is not a param")
}

// The result of a method of the program is never a question.
func TestMethodsAskNothing(t *testing.T) {
	srv := newServer(t)
	errs := make(chan error, 1)
	server.AddMethod(srv, server.Method{Name: "x/ask"}, func(_ context.Context, c *server.Call, _ none) (addOut, error) {
		_, err := c.Roots("roots")
		errs <- err
		return addOut{}, err
	})
	p := dial(t, srv)
	require.Contains(t, p.ask(withCaps(1, "x/ask", `"roots":{}`, "")), `"code":-32603`)
	require.ErrorIs(t, <-errs, mcp.ErrNoBackChannel)

	p.initializeWith(`"roots":{}`)
	require.Contains(t, p.ask(legacy(1, "x/ask", "")), `"method":"roots/list"`, "legacy clients are sent requests")
	require.ErrorIs(t, <-errs, mcp.ErrInputRequired)
	require.Contains(t, p.ask(`{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}`), `"sum":0`)
	require.NoError(t, <-errs)
}

type withMeta struct {
	N int `json:"n"`
	mcp.ResultMeta
}

func TestMethodResults(t *testing.T) {
	srv := newServer(t)
	add := func(name string, value func() (any, error)) {
		server.AddMethod(srv, server.Method{Name: name}, func(context.Context, *server.Call, none) (any, error) { return value() })
	}
	add("x/pointer", func() (any, error) { return &withMeta{N: 1, ResultMeta: mcp.ResultMeta{Meta: mcp.Meta{"k": 1}}}, nil })
	add("x/plain", func() (any, error) { return addOut{2}, nil })
	add("x/map", func() (any, error) { return map[string]int{"n": 3}, nil })
	add("x/raw", func() (any, error) { return jsontext.Value(`{"n":4}`), nil })
	add("x/empty", func() (any, error) { return struct{}{}, nil })
	add("x/nil", func() (any, error) { return nil, nil })
	add("x/nilpointer", func() (any, error) { return (*withMeta)(nil), nil })
	add("x/number", func() (any, error) { return 5, nil })
	add("x/type", func() (any, error) { return map[string]int{"resultType": 1}, nil })
	add("x/ownmeta", func() (any, error) { return map[string]int{"_meta": 1}, nil })
	add("x/error", func() (any, error) { return nil, mcp.NewError(7, "mine").WithData(1) })
	add("x/secret", func() (any, error) { return nil, errors.New("secret") })
	add("x/panic", func() (any, error) { panic("secret") })
	server.AddMethod(srv, server.Method{Name: "x/value"}, func(context.Context, *server.Call, none) (withMeta, error) {
		return withMeta{N: 6, ResultMeta: mcp.ResultMeta{Meta: mcp.Meta{"k": 1}}}, nil
	})
	p := dial(t, srv)
	p.initialize("2025-11-25")
	const meta = `"_meta":{"k":1,"io.modelcontextprotocol/serverInfo":{"name":"test","version":"1"}},"resultType":"complete"`
	for method, want := range map[string]struct{ modern, legacy string }{
		"x/pointer": {`"n":1,` + meta, `"n":1,"_meta":{"k":1}`},
		"x/value":   {`"n":6,` + meta, `"n":6,"_meta":{"k":1}`},
		"x/plain":   {`"sum":2,` + serverMeta, `"sum":2`},
		"x/map":     {`"n":3,` + serverMeta, `"n":3`},
		"x/raw":     {`"n":4,` + serverMeta, `"n":4`},
		"x/empty":   {serverMeta, ``},
	} {
		require.JSONEq(t, result(1, want.modern), p.ask(modern(1, method, "")), method)
		require.JSONEq(t, result(1, want.legacy), p.ask(legacy(1, method, "")), method)
	}
	for _, method := range []string{"x/nil", "x/nilpointer", "x/number", "x/type", "x/ownmeta", "x/secret", "x/panic"} {
		answer := p.ask(modern(1, method, ""))
		require.Contains(t, answer, `"code":-32603,"message":"internal error`, method)
		require.NotContains(t, answer, "secret")
	}
	require.JSONEq(t, `{"jsonrpc":"2.0","id":1,"error":{"code":7,"message":"mine","data":1}}`, p.ask(modern(1, "x/error", "")))
}

func TestBadMethods(t *testing.T) {
	srv := newThing(t)
	handler := func(context.Context, *server.Call, none) (addOut, error) { return addOut{}, nil }
	for name, m := range map[string]server.Method{
		"no name":           {},
		"the protocol's":    {Name: "tools/call"},
		"its prefix":        {Name: "tools/mine"},
		"not even tasks":    {Name: "tasks/list"},
		"ping":              {Name: "ping"},
		"notification":      {Name: "notifications/progress"},
		"white space":       {Name: "a b"},
		"unknown extension": {Name: "x/y", Extension: "com.example/other"},
		"nil middleware":    {Name: "x/y", Middleware: []middleware.Middleware{nil}},
	} {
		require.Error(t, server.TryAddMethod(srv, m, handler), name)
		require.Panics(t, func() { server.AddMethod(srv, m, handler) }, name)
	}
	m := server.Method{Name: "x/y"}
	require.ErrorContains(t, server.TryAddMethod[none, addOut](srv, m, nil), "the handler is nil")
	require.ErrorContains(t, server.TryAddMethod(srv, m, func(context.Context, *server.Call, int) (addOut, error) { return addOut{}, nil }), "params")
	require.ErrorContains(t, server.TryAddMethod(srv, m, func(context.Context, *server.Call, none) (string, error) { return "", nil }), "result")
	require.NoError(t, server.TryAddMethod(srv, m, handler), "the name is not taken")
}

// A method of the program is a request like any other: middlewares wrap it, its deadline holds,
// it can be cancelled, and its label is its name.
func TestMethodIsARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, err := telemetry.New()
		require.NoError(t, err)
		j := &journal{}
		srv := newServer(t, server.WithMiddleware(j.middleware("server")), server.WithTelemetry(tel))
		j.take()
		causes := make(chan error, 2)
		server.AddMethod(srv, server.Method{
			Name: "x/wait", Middleware: []middleware.Middleware{j.middleware("method")}, Deadline: time.Second,
		}, func(ctx context.Context, _ *server.Call, _ none) (addOut, error) {
			j.add("handler")
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return addOut{}, nil
		})
		require.Equal(t, []string{"build method", "build server"}, j.take())
		p := dial(t, srv)
		begin := time.Now()
		require.Contains(t, p.ask(modern(1, "x/wait", "")), "deadline")
		require.Equal(t, time.Second, time.Since(begin))
		require.ErrorIs(t, <-causes, mcp.ErrDeadline)
		require.Equal(t, []string{"server before", "method before", "handler", "method after", "server after"}, j.take())
		p.send(modern(2, "x/wait", ""))
		synctest.Wait()
		p.send(cancelled(2))
		require.ErrorIs(t, <-causes, mcp.ErrClientCancelled)
		p.silent()
		require.Contains(t, scrape(t, tel), `vitrine_requests_admitted_total{method="x/wait"} 2`)
		require.NoError(t, tel.Shutdown(t.Context()))
	})
}

// scrape returns what a scraper sees.
func scrape(t *testing.T, tel *telemetry.Telemetry) string {
	t.Helper()
	families, err := tel.Registry().Gather()
	require.NoError(t, err)
	text := ""
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := ""
			for _, l := range m.GetLabel() {
				labels += fmt.Sprintf(",%s=%q", l.GetName(), l.GetValue())
			}
			if labels != "" {
				labels = "{" + labels[1:] + "}"
			}
			text += fmt.Sprintf("%s%s %v\n", f.GetName(), labels, m.GetCounter().GetValue()+m.GetGauge().GetValue())
		}
	}
	return text
}
