package server_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
)

const thing = "com.example/thing"

// declares is a member of params._meta: what newServer's clients can do, with an
// extension. It replaces that of modernMeta.
func declares(id string) string { return fmt.Sprintf(`"extensions":{%q:{"level":3}}`, id) }

// withCaps is a modern request whose client declares capabilities; params are members.
func withCaps(id any, method, capabilities, params string) string {
	meta := fmt.Sprintf(`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{%s}}`, capabilities)
	if params != "" {
		meta += "," + params
	}
	return legacy(id, method, meta)
}

// initializeWith does the legacy handshake of a client with capabilities.
func (p *rawPipe) initializeWith(capabilities string) string {
	p.t.Helper()
	answer := p.ask(legacy("init", "initialize",
		`"protocolVersion":"2025-11-25","capabilities":{`+capabilities+`},"clientInfo":{"name":"old","version":"9"}`))
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return answer
}

func TestExtensionsAreAnnounced(t *testing.T) {
	srv := newServer(t)
	p := dial(t, srv)
	require.NotContains(t, p.ask(modern(1, "server/discover", "")), "extensions", "off unless added")
	require.NotContains(t, p.initializeWith(""), "extensions")

	srv.AddExtension(server.Extension{ID: thing})
	srv.AddExtension(server.Extension{ID: "org.example/other", Settings: map[string]int{"max": 7}})
	const both = `"extensions":{"com.example/thing":{},"org.example/other":{"max":7}}`
	require.Contains(t, p.ask(modern(1, "server/discover", "")), both)
	require.Contains(t, dial(t, srv).initializeWith(""), both)
}

func TestBadExtensions(t *testing.T) {
	srv := newServer(t)
	srv.AddExtension(server.Extension{ID: thing})
	for name, e := range map[string]server.Extension{
		"no id":        {},
		"no prefix":    {ID: "thing"},
		"taken":        {ID: thing},
		"no object":    {ID: "com.example/a", Settings: 1},
		"not encoding": {ID: "com.example/b", Settings: func() {}},
		"our own":      {ID: mcp.ExtensionTasks},
	} {
		t.Run(name, func(t *testing.T) {
			require.Error(t, srv.TryAddExtension(e))
			require.Panics(t, func() { srv.AddExtension(e) })
		})
	}
	require.Contains(t, dial(t, srv).ask(modern(1, "server/discover", "")), `"extensions":{"com.example/thing":{}}`, "nothing was added")
	_, err := server.TryNew("x", "1", server.WithTasks(server.Tasks{PollInterval: -1}))
	require.ErrorContains(t, err, "must not be negative")
}

// What a client declares is seen with each request, and in the legacy era from initialize on.
func TestCallExtension(t *testing.T) {
	srv := newServer(t)
	server.AddTool(srv, server.Tool{Name: "x"}, func(_ context.Context, c *server.Call, _ none) (string, error) {
		settings, declared := c.Extension(thing)
		return fmt.Sprintf("%s %v", settings, declared), nil
	})
	const no = `null false`
	for capabilities, want := range map[string]string{
		``:                                      no,
		`"extensions":{}`:                       no,
		`"extensions":{"com.example/other":{}}`: no,
		`"extensions":{"com.example/thing":{}}`: `{} true`,
		declares(thing):                         `{"level":3} true`,
		`"extensions":{"com.example/thing":null}`: no,
		`"extensions":{"com.example/thing":true}`: no,
		`"extensions":[]`:                         no,
	} {
		p := dial(t, srv)
		require.Contains(t, p.ask(withCaps(1, "tools/call", capabilities, call("x", `{}`))), fmt.Sprintf(`"text":%q`, want), capabilities)
		require.Contains(t, p.ask(modern(1, "tools/call", call("x", `{}`))), `"text":"null false"`, "nothing is remembered")
		if capabilities != `"extensions":[]` { // with which no handshake succeeds
			p.initializeWith(capabilities)
			require.Contains(t, p.ask(legacy(1, "tools/call", call("x", `{}`))), fmt.Sprintf(`"text":%q`, want), capabilities)
		}
	}
	p := dial(t, srv)
	p.initializeWith(`"experimental":{"com.example/thing":{"old":1}}`)
	require.Contains(t, p.ask(legacy(1, "tools/call", call("x", `{}`))), `"text":"{\"old\":1} true"`, "where older clients declare")
}

func TestExtensionOfServertest(t *testing.T) {
	srv := newServer(t)
	server.AddTool(srv, server.Tool{Name: "x"}, func(_ context.Context, c *server.Call, _ none) (string, error) {
		settings, _ := c.Extension(thing)
		_, other := c.Extension("com.example/other")
		return fmt.Sprintf("%s %v", settings, other), nil
	})
	for _, opts := range [][]servertest.Option{nil, {servertest.Legacy(mcp.Version20251125)}} {
		opts = append(opts, servertest.Extension(thing, map[string]int{"a": 1}), servertest.Extension("com.example/other", nil))
		result, err := servertest.Connect(t, srv, opts...).CallTool(t.Context(), "x", nil)
		require.NoError(t, err)
		require.Equal(t, `{"a":1} true`, result.Text())
	}
}
