package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
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

	server.AddExtension(srv, server.Extension{ID: thing})
	server.AddExtension(srv, server.Extension{ID: "org.example/other", Settings: map[string]int{"max": 7}})
	const both = `"extensions":{"com.example/thing":{},"org.example/other":{"max":7}}`
	require.Contains(t, p.ask(modern(1, "server/discover", "")), both)
	require.Contains(t, dial(t, srv).initializeWith(""), both)
}

func TestBadExtensions(t *testing.T) {
	srv := newServer(t)
	server.AddExtension(srv, server.Extension{ID: thing})
	for name, e := range map[string]server.Extension{
		"no id":        {},
		"no prefix":    {ID: "thing"},
		"no object":    {ID: "com.example/a", Settings: 1},
		"not encoding": {ID: "com.example/b", Settings: func() {}},
		"our own":      {ID: mcp.ExtensionTasks},
	} {
		t.Run(name, func(t *testing.T) {
			require.Error(t, server.TryAddExtension(srv, e))
			require.Panics(t, func() { server.AddExtension(srv, e) })
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

// own registers a method and a notification; extension may be "".
func own(t *testing.T, srv *server.Server, name, extension string, heard chan<- string) {
	t.Helper()
	require.NoError(t, server.TryAddMethod(srv, server.Method{Name: name, Extension: extension},
		func(context.Context, *server.Call, none) (addOut, error) { return addOut{Sum: 7}, nil }))
	require.NoError(t, server.TryAddNotification(srv, name, extension, func(context.Context, *server.Notice, none) { heard <- name }))
}

// Methods, notifications and extensions can be removed, in both eras, and nothing else is
// removed with them.
func TestRemoveOwnMethodsAndNotifications(t *testing.T) {
	for _, tt := range []struct {
		name         string
		remove       func(*server.Server)
		calls, heard []string // what is left
		off          bool     // the extension is
	}{
		{"nothing", func(srv *server.Server) {
			srv.RemoveMethods("x/none", "", "tools/list", "ping", thing)
			srv.RemoveNotifications("x/none", "", "notifications/initialized")
			srv.RemoveExtensions("x/none", "", mcp.ExtensionTasks)
		}, []string{"x/free", "x/thing", "x/other"}, []string{"x/free", "x/thing", "x/other"}, false},
		{"methods", func(srv *server.Server) { srv.RemoveMethods("x/free", "x/thing") },
			[]string{"x/other"}, []string{"x/free", "x/thing", "x/other"}, false},
		{"notifications", func(srv *server.Server) { srv.RemoveNotifications("x/free", "x/thing") },
			[]string{"x/free", "x/thing", "x/other"}, []string{"x/other"}, false},
		{"an extension", func(srv *server.Server) { srv.RemoveExtensions(thing) },
			[]string{"x/free", "x/other"}, []string{"x/free", "x/other"}, true},
		{"an extension whose method was registered anew", func(srv *server.Server) {
			srv.RemoveMethods("x/thing")
			srv.RemoveNotifications("x/thing")
			own(t, srv, "x/thing", "", make(chan string, 9))
			srv.RemoveExtensions(thing)
		}, []string{"x/free", "x/thing", "x/other"}, []string{"x/free", "x/other"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := newServer(t, server.WithTasks(server.Tasks{}))
			heard := make(chan string, 9)
			server.AddExtension(srv, server.Extension{ID: thing})
			server.AddExtension(srv, server.Extension{ID: "com.example/other"})
			own(t, srv, "x/free", "", heard)
			own(t, srv, "x/thing", thing, heard)
			own(t, srv, "x/other", "com.example/other", heard)
			const both = `"extensions":{"com.example/thing":{},"com.example/other":{}}`
			p := dial(t, srv)
			p.initializeWith(both)
			tt.remove(srv)

			for _, name := range []string{"x/free", "x/thing", "x/other"} {
				for _, request := range []string{withCaps(1, name, both, ""), legacy(1, name, "")} {
					answer := p.ask(request)
					if slices.Contains(tt.calls, name) {
						require.Contains(t, answer, `"sum":7`, name)
					} else {
						require.JSONEq(t, failure(1, -32601, fmt.Sprintf("there is no method %q", name)), answer)
					}
				}
				p.send(notification(name, ""))
			}
			require.Contains(t, p.ask(legacy(2, "ping", "")), `"result":{}`)
			require.Contains(t, p.ask(modern(3, "tools/list", "")), `"tools"`)
			close(heard)
			var got []string
			for name := range heard {
				got = append(got, name)
			}
			require.Equal(t, tt.heard, got)
			discovered := p.ask(modern(4, "server/discover", ""))
			require.Contains(t, discovered, `"io.modelcontextprotocol/tasks":{}`)
			require.Contains(t, discovered, `"com.example/other":{}`)

			require.Equal(t, tt.off, !strings.Contains(discovered, thing))

			// Their names are free again.
			if tt.off {
				server.AddExtension(srv, server.Extension{ID: thing})
			}
			if !slices.Contains(tt.calls, "x/thing") && !slices.Contains(tt.heard, "x/thing") {
				own(t, srv, "x/thing", thing, make(chan string, 9))
				require.Contains(t, p.ask(withCaps(5, "x/thing", both, "")), `"sum":7`)
			}
		})
	}
}

// A running call goes on when its method is removed. The next call over HTTP gets the status of
// an unknown method.
func TestRemoveMethodWhileACallRuns(t *testing.T) {
	srv := newServer(t)
	running, release := make(chan bool), make(chan bool)
	server.AddMethod(srv, server.Method{Name: "x/slow"}, func(context.Context, *server.Call, none) (addOut, error) {
		running <- true
		<-release
		return addOut{Sum: 7}, nil
	})
	p := dial(t, srv)
	p.send(modern(1, "x/slow", ""))
	<-running
	srv.RemoveMethods("x/slow")
	require.JSONEq(t, failure(2, -32601, `there is no method "x/slow"`), p.ask(modern(2, "x/slow", "")))
	close(release)
	require.Contains(t, p.recv(), `"sum":7`)
	res, _ := exchange(t, "POST", listen(t, srv), modern(3, "x/slow", ""), "Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: x/slow")
	require.Equal(t, 404, res.StatusCode)
}

// A method that is registered while its extension is removed does not stay.
func TestRemoveExtensionWhileItGrows(t *testing.T) {
	srv := newServer(t)
	server.AddExtension(srv, server.Extension{ID: thing})
	err := server.TryAddMethod(srv, server.Method{Name: "x/thing", Extension: thing, Middleware: []middleware.Middleware{
		func(next middleware.Handler) middleware.Handler {
			srv.RemoveExtensions(thing) // while the method is built
			return next
		},
	}}, func(context.Context, *server.Call, none) (addOut, error) { return addOut{}, nil })
	require.EqualError(t, err, `server: method "x/thing": extension "com.example/thing" was not added`)
	require.JSONEq(t, failure(1, -32601, `there is no method "x/thing"`), dial(t, srv).ask(modern(1, "x/thing", "")))
}

// Methods, notifications and extensions that are added again replace those with their name.
// After a mistake nothing has changed, and the names of the protocol are reserved.
func TestOwnMethodsAreReplaced(t *testing.T) {
	logs := &logRecorder{}
	srv := newServer(t, server.WithLogger(slog.New(logs)))
	server.AddExtension(srv, server.Extension{ID: thing, Settings: map[string]int{"max": 1}})
	says := func(sum int) server.MethodHandler[none, addOut] {
		return func(context.Context, *server.Call, none) (addOut, error) { return addOut{sum}, nil }
	}
	got := make(chan string, 2)
	hears := func(text string) server.NotificationHandler[none] {
		return func(context.Context, *server.Notice, none) { got <- text }
	}
	server.AddMethod(srv, server.Method{Name: "x/thing", Extension: thing}, says(1))
	server.AddNotification(srv, "x/nudge", thing, hears("old"))
	p := dial(t, srv)
	require.Contains(t, p.ask(modern(1, "x/thing", "")), "must declare")

	server.AddExtension(srv, server.Extension{ID: thing, Settings: map[string]int{"max": 2}})
	require.Contains(t, p.ask(modern(2, "server/discover", "")), `"com.example/thing":{"max":2}`)
	require.Contains(t, p.ask(withCaps(3, "x/thing", declares(thing), "")), `"sum":1`, "what belongs to the extension stays")
	server.AddMethod(srv, server.Method{Name: "x/thing"}, says(2))
	require.Contains(t, p.ask(modern(4, "x/thing", "")), `"sum":2`, "it belongs to no extension any more")
	server.AddNotification(srv, "x/nudge", "", hears("new"))
	p.send(notification("x/nudge", `"_meta":{`+modernMeta+`}`))
	require.Equal(t, "new", <-got)
	require.Empty(t, got)

	require.Error(t, server.TryAddExtension(srv, server.Extension{ID: thing, Settings: 1}))
	require.Error(t, server.TryAddMethod[none, addOut](srv, server.Method{Name: "x/thing"}, nil))
	require.Error(t, server.TryAddMethod(srv, server.Method{Name: "x/thing", Extension: "com.example/other"}, says(3)))
	require.Error(t, server.TryAddMethod(srv, server.Method{Name: "tools/list"}, says(3)))
	require.Error(t, server.TryAddNotification[none](srv, "x/nudge", "", nil))
	require.Contains(t, p.ask(modern(5, "server/discover", "")), `"com.example/thing":{"max":2}`)
	require.Contains(t, p.ask(modern(6, "x/thing", "")), `"sum":2`)

	srv.RemoveExtensions(thing)
	require.Contains(t, p.ask(modern(7, "x/thing", "")), `"sum":2`)
	var replaced []string
	for _, r := range logs.find("registration.replaced") {
		replaced = append(replaced, r.attrs["kind"]+" "+r.attrs["name"])
	}
	require.Equal(t, []string{"extension " + thing, "method x/thing", "notification x/nudge"}, replaced)
}
