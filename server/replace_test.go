package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
)

// A replaceable is one of the lists, with a way to use what is in it. What is added says
// text in its answers and has a title.
type replaceable struct {
	list        string
	add         func(srv *server.Server, name, title, text string) error
	use, params string // a method, and the members of its params with a verb for the name
	changed     string
}

func replaceables() map[string]replaceable {
	item := func(name string) string { return "x:" + name + "{a}" }
	vars := func(text string) server.TemplateHandler[string] {
		return func(context.Context, *server.Call, string, map[string]string) (string, error) { return text, nil }
	}
	return map[string]replaceable{
		"tool": {"tools/list",
			func(srv *server.Server, name, title, s string) error {
				return server.TryAddTool(srv, server.Tool{Name: name, Title: title}, text(s))
			},
			"tools/call", `"name":"%s"`, toolsChanged},
		"prompt": {"prompts/list",
			func(srv *server.Server, name, title, s string) error {
				return server.TryAddPrompt(srv, server.Prompt{Name: name, Title: title}, say(s))
			},
			"prompts/get", `"name":"%s"`, promptsChanged},
		"resource": {"resources/list",
			func(srv *server.Server, name, title, s string) error {
				return server.TryAddResource(srv, server.Resource{URI: "x:" + name, Name: name, Title: title}, reader(s))
			},
			"resources/read", `"uri":"x:%s"`, resourcesChanged},
		"static resource": {"resources/list",
			func(srv *server.Server, name, title, s string) error {
				return server.TryAddStaticResource(srv, server.Resource{URI: "x:" + name, Name: name, Title: title}, s)
			},
			"resources/read", `"uri":"x:%s"`, resourcesChanged},
		"template": {"resources/templates/list",
			func(srv *server.Server, name, title, s string) error {
				return server.TryAddResourceTemplate(srv, server.ResourceTemplate{URITemplate: item(name), Name: name, Title: title}, vars(s))
			},
			"resources/read", `"uri":"x:%s1"`, resourcesChanged},
	}
}

// A replacement keeps the place in the list and the cursors of clients. Clients of both eras are
// told once, and see the new definition.
func TestAddAgainKeepsThePlace(t *testing.T) {
	for kind, r := range replaceables() {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				logs := &logRecorder{}
				srv := newServer(t, server.WithPageSize(2), server.WithLogger(slog.New(logs)))
				for _, name := range strings.Fields("e d c b a") {
					require.NoError(t, r.add(srv, name, "old", "old"))
				}
				require.Empty(t, logs.find("registration.replaced"))
				p, listening, old := dial(t, srv), dial(t, srv), dial(t, srv)
				old.initialize("2025-11-25")
				listening.ask(listenTo(9, everything))
				cursor := pageOf(t, p, r.list, "-").cursor // behind d
				synctest.Wait()
				before := p.ask(modern(1, r.list, fmt.Sprintf(`"cursor":%q`, cursor)))

				for _, name := range []string{"d", "c"} {
					require.NoError(t, r.add(srv, name, "new", "new"))
					require.JSONEq(t, about(9, r.changed, ""), listening.recv())
					require.Equal(t, notice(r.changed, ""), old.recv())
				}
				require.Equal(t, [][]string{{"e", "d"}, {"c", "b"}, {"a"}}, pagesOf(t, p, r.list))
				after := p.ask(modern(1, r.list, fmt.Sprintf(`"cursor":%q`, cursor)))
				require.Equal(t, 2, strings.Count(before, `"title":"old"`))
				require.Equal(t, 1, strings.Count(after, `"title":"new"`), after)
				require.Contains(t, old.ask(legacy(2, r.list, "")), `"title":"new"`)

				for name, says := range map[string]string{"c": "new", "b": "old"} {
					params := fmt.Sprintf(r.params, name)
					for _, answer := range []string{p.ask(modern(3, r.use, params)), old.ask(legacy(3, r.use, params))} {
						require.Contains(t, answer, says, name)
					}
				}
				records := logs.find("registration.replaced")
				require.Len(t, records, 2)
				require.Equal(t, slog.LevelDebug, records[0].level)
				require.Equal(t, "true", records[0].attrs["list_changed"])

				require.NoError(t, r.add(srv, "f", "old", "old"))
				require.Equal(t, [][]string{{"e", "d"}, {"c", "b"}, {"a", "f"}}, pagesOf(t, p, r.list), "the next one comes last")
				synctest.Wait()
				require.JSONEq(t, about(9, r.changed, ""), listening.recv())
				require.Equal(t, notice(r.changed, ""), old.recv())
				listening.silent()
				old.silent()
			})
		})
	}
}

// A replacement with the same definition is not announced, but has the new handler. Removing an
// unknown name is not announced.
func TestEqualReplacementIsNotAnnounced(t *testing.T) {
	for kind, r := range replaceables() {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				logs := &logRecorder{}
				srv := newServer(t, server.WithLogger(slog.New(logs)))
				for _, name := range strings.Fields("a b c") {
					require.NoError(t, r.add(srv, name, "title", "old"))
				}
				p, listening, old := dial(t, srv), dial(t, srv), dial(t, srv)
				old.initialize("2025-11-25")
				listening.ask(listenTo(9, everything))
				list, page := old.ask(legacy(2, r.list, "")), p.ask(modern(1, r.list, ""))
				synctest.Wait()

				require.NoError(t, r.add(srv, "b", "title", "new"))
				srv.RemoveTools("nope")
				srv.RemovePrompts("nope")
				srv.RemoveResources("x:nope")
				srv.RemoveResourceTemplates("x:nope{a}")
				synctest.Wait()
				listening.silent()
				old.silent()
				require.Equal(t, list, old.ask(legacy(2, r.list, "")))
				require.Equal(t, page, p.ask(modern(1, r.list, "")))
				require.Contains(t, p.ask(modern(3, r.use, fmt.Sprintf(r.params, "b"))), "new")
				require.Contains(t, old.ask(legacy(3, r.use, fmt.Sprintf(r.params, "b"))), "new")
				records := logs.find("registration.replaced")
				require.Len(t, records, 1)
				require.Equal(t, "false", records[0].attrs["list_changed"])

				require.NoError(t, r.add(srv, "b", "changed", "newer"))
				require.JSONEq(t, about(9, r.changed, ""), listening.recv())
				require.Equal(t, notice(r.changed, ""), old.recv())
				synctest.Wait()
				listening.silent()
				old.silent()
			})
		})
	}
}

// After a mistake in a definition the old one is still there.
func TestBadReplacements(t *testing.T) {
	srv := newServer(t)
	for kind, r := range replaceables() {
		if kind != "static resource" { // the resource has its URI
			require.NoError(t, r.add(srv, "x", "old", "old"))
		}
	}
	server.AddFiles(srv, server.Files{URI: "y:/", Name: "n", FS: failingFS{}})
	noJSON := mcp.Meta{"example.com/k": func() {}}
	for name, err := range map[string]error{
		"tool, nil handler":   server.TryAddTool[none, string](srv, server.Tool{Name: "x"}, nil),
		"tool, input":         server.TryAddTool(srv, server.Tool{Name: "x"}, func(context.Context, *server.Call, string) (string, error) { return "", nil }),
		"tool, no JSON":       server.TryAddTool(srv, server.Tool{Name: "x", Meta: noJSON}, text("new")),
		"prompt, nil handler": server.TryAddPrompt(srv, server.Prompt{Name: "x"}, nil),
		"resource, no name":   server.TryAddResource(srv, server.Resource{URI: "x:x"}, reader("new")),
		"static, no name":     server.TryAddStaticResource(srv, server.Resource{URI: "x:x"}, "new"),
		"template, no name":   server.TryAddResourceTemplate(srv, server.ResourceTemplate{URITemplate: "x:x{a}"}, echoVars),
		"files, no FS":        server.TryAddFiles(srv, server.Files{URI: "y:/", Name: "n"}),
	} {
		require.Error(t, err, name)
	}
	require.ErrorContains(t, server.TryAddTool(srv, server.Tool{Name: "x", Meta: noJSON}, text("new")),
		`server: tool "x" cannot be encoded for the list: `)
	p := dial(t, srv)
	for kind, r := range replaceables() {
		require.Contains(t, p.ask(modern(1, r.use, fmt.Sprintf(r.params, "x"))), "old", kind)
	}
}

// A running call goes on with its old handler.
func TestReplaceWhileACallRuns(t *testing.T) {
	srv := newServer(t)
	running, release := make(chan bool), make(chan bool)
	server.AddTool(srv, server.Tool{Name: "x"}, func(context.Context, *server.Call, none) (string, error) {
		running <- true
		<-release
		return "old", nil
	})
	p := dial(t, srv)
	p.initialize("2025-11-25")
	p.send(modern(1, "tools/call", call("x", `{}`)), legacy(2, "tools/call", call("x", `{}`)))
	<-running
	<-running
	server.AddTool(srv, server.Tool{Name: "x"}, func(_ context.Context, _ *server.Call, in struct{ N int }) (string, error) {
		return fmt.Sprint("new ", in.N), nil
	})
	require.Equal(t, notice(toolsChanged, ""), p.recv())
	require.Contains(t, p.ask(modern(3, "tools/call", call("x", `{"N":7}`))), "new 7")
	require.Contains(t, p.ask(legacy(4, "tools/call", call("x", `{"N":7}`))), "new 7")
	close(release)
	require.Contains(t, p.recv()+p.recv(), `"old"`)
}

// Calls and lists always find an item that is being replaced, at its place.
func TestReplacementIsAtomic(t *testing.T) {
	for kind, r := range replaceables() {
		t.Run(kind, func(t *testing.T) {
			srv := newServer(t)
			for _, name := range strings.Fields("a b c") {
				require.NoError(t, r.add(srv, name, "v", "v"))
			}
			p := dial(t, srv)
			var replacing sync.WaitGroup
			replacing.Go(func() {
				for i := range 300 {
					if err := r.add(srv, "b", fmt.Sprint(i/2), "v"); err != nil { // each second one is equal
						t.Error(err)
					}
				}
			})
			for range 100 {
				require.Contains(t, p.ask(modern(1, r.use, fmt.Sprintf(r.params, "b"))), `"result"`)
				require.Equal(t, [][]string{{"a", "b", "c"}}, pagesOf(t, p, r.list))
			}
			replacing.Wait()
		})
	}
}

// A replacement with another definition or other static content is an update of that resource.
// The server does not know what handlers read.
func TestReplacedResourceIsUpdated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := changing(t)
		p, old := dial(t, srv), dial(t, srv)
		p.ask(listenTo(1, `{"resourceSubscriptions":["test://a","test://item/1"]}`))
		old.initialize("2025-11-25")
		old.ask(withURI(1, "resources/subscribe", "test://a"))
		old.ask(withURI(2, "resources/subscribe", "test://item/1"))
		synctest.Wait()
		told := func(list bool, why string) {
			t.Helper()
			synctest.Wait()
			require.JSONEq(t, updated(1, "test://a"), p.recv(), why)
			want := []string{notice("notifications/resources/updated", `{"uri":"test://a"}`)}
			got := []string{old.recv()}
			if list {
				want, got = append(want, notice(resourcesChanged, "")), append(got, old.recv())
			}
			require.ElementsMatch(t, want, got, why)
			p.silent()
			old.silent()
		}
		silent := func(why string) {
			t.Helper()
			synctest.Wait()
			p.silent()
			old.silent()
			_ = why
		}
		a := server.Resource{URI: "test://a", Name: "a"}

		server.AddStaticResource(srv, a, "new")
		told(true, "the size is another")
		require.Contains(t, p.ask(modern(2, "resources/read", uri("test://a"))), `"text":"new"`)
		server.AddStaticResource(srv, a, "new")
		silent("the content is the same")
		server.AddStaticResource(srv, a, "net")
		told(false, "the list shows only the size")
		server.AddStaticResource(srv, a, []byte("net"))
		told(false, "it was text, and bytes are a blob")

		a.Size = 3
		server.AddResource(srv, a, reader("now"))
		told(false, "a handler instead of what was fixed")
		server.AddResource(srv, a, reader("other"))
		silent("two handlers that nobody can compare")
		require.Contains(t, p.ask(modern(3, "resources/read", uri("test://a"))), "other")
		a.Title = "A"
		server.AddResource(srv, a, reader("other"))
		told(true, "the list shows another title")

		server.AddResourceTemplate(srv, server.ResourceTemplate{URITemplate: "test://item/{id}", Name: "another name"}, echoVars)
		require.Equal(t, notice(resourcesChanged, ""), old.recv(), "the list, and nobody knows which of the family")
		require.Error(t, server.TryAddResource(srv, server.Resource{URI: "test://a"}, reader("newer")))
		silent("an error")
	})
}

// A replaced template keeps its place in the order of matching, and has the new completions.
func TestReplacedTemplate(t *testing.T) {
	srv := newServer(t)
	add := func(uriTemplate, name string) {
		server.AddResourceTemplate(srv, server.ResourceTemplate{URITemplate: uriTemplate, Name: name},
			func(context.Context, *server.Call, string, map[string]string) (string, error) { return name, nil })
	}
	add("x:{a}", "first")
	add("x:{b}", "second")
	client := servertest.Connect(t, srv)
	read := func() string {
		got, err := client.ReadResource(t.Context(), "x:1")
		require.NoError(t, err)
		return got.Contents[0].Text
	}
	require.Equal(t, "first", read())
	server.AddResourceTemplate(srv, server.ResourceTemplate{
		URITemplate: "x:{a}", Name: "n",
		Complete: map[string]server.CompleteFunc{"a": func(context.Context, *server.Call, string, map[string]string) ([]string, error) {
			return []string{"new"}, nil
		}},
	}, echoVars)
	require.Equal(t, "map[a:1]", read())
	values, err := client.CompleteResource(t.Context(), "x:{a}", "a", "", nil)
	require.NoError(t, err)
	require.Equal(t, []string{"new"}, values.Values)
}

// The Try functions return the error, after which nothing has changed.
func TestTryAddStaticResourceAndFiles(t *testing.T) {
	srv := newServer(t)
	require.NoError(t, server.TryAddStaticResource(srv, server.Resource{URI: "x:a", Name: "a"}, "content"))
	require.NoError(t, server.TryAddFiles(srv, server.Files{URI: "y:/", Name: "files", FS: failingFS{}}))
	require.Error(t, server.TryAddStaticResource(srv, server.Resource{URI: "x:b"}, []byte("no name")))
	require.Error(t, server.TryAddStaticResource(srv, server.Resource{URI: "no scheme", Name: "n"}, "other"))
	for _, bad := range []server.Files{
		{URI: "z:/", Name: "no FS"}, {URI: "z:", Name: "no slash", FS: failingFS{}}, {URI: "z:/{a}/", Name: "brace", FS: failingFS{}},
		{URI: "z:/", Name: "limit", FS: failingFS{}, MaxBytes: -1}, {URI: "z:/", FS: failingFS{}},
	} {
		require.Error(t, server.TryAddFiles(srv, bad), bad.Name)
	}
	require.Panics(t, func() { server.AddStaticResource(srv, server.Resource{URI: "x:a"}, "no name") })

	client := servertest.Connect(t, srv)
	resources, err := client.ListResources(t.Context())
	require.NoError(t, err)
	require.Len(t, resources, 1)
	require.Equal(t, mcp.Resource{URI: "x:a", Name: "a", Size: 7}, resources[0])
	templates, err := client.ListResourceTemplates(t.Context())
	require.NoError(t, err)
	require.Len(t, templates, 1)
	require.Equal(t, "files", templates[0].Name)
	server.AddFiles(srv, server.Files{URI: "y:/", Name: "other files", FS: failingFS{}})
	templates, err = client.ListResourceTemplates(t.Context())
	require.NoError(t, err)
	require.Len(t, templates, 1)
	require.Equal(t, "other files", templates[0].Name)
	srv.RemoveResourceTemplates("y:/{+path}")
	templates, err = client.ListResourceTemplates(t.Context())
	require.NoError(t, err)
	require.Empty(t, templates)
}
