package server_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
)

// A replaceable is one of the lists, with a way to use what is in it. What is added and
// put in the place of another says text, in its answers and as its title.
type replaceable struct {
	list         string
	add, replace func(srv *server.Server, name, text string) error
	use, params  string // a method, and the members of its params with a verb for the name
	changed      string
	unknown      string // the error of a replacement of what is not there
}

func replaceables() map[string]replaceable {
	item := func(name string) string { return "x:" + name + "{a}" }
	vars := func(text string) server.TemplateHandler[string] {
		return func(context.Context, *server.Call, string, map[string]string) (string, error) { return text, nil }
	}
	return map[string]replaceable{
		"tool": {"tools/list",
			func(srv *server.Server, name, s string) error {
				return server.TryAddTool(srv, server.Tool{Name: name, Title: s}, text(s))
			},
			func(srv *server.Server, name, s string) error {
				return server.ReplaceTool(srv, server.Tool{Name: name, Title: s}, text(s))
			},
			"tools/call", `"name":"%s"`, toolsChanged, `server: there is no tool "nope" to replace`},
		"prompt": {"prompts/list",
			func(srv *server.Server, name, s string) error {
				return server.TryAddPrompt(srv, server.Prompt{Name: name, Title: s}, say(s))
			},
			func(srv *server.Server, name, s string) error {
				return server.ReplacePrompt(srv, server.Prompt{Name: name, Title: s}, say(s))
			},
			"prompts/get", `"name":"%s"`, promptsChanged, `server: there is no prompt "nope" to replace`},
		"resource": {"resources/list",
			func(srv *server.Server, name, s string) error {
				return server.TryAddResource(srv, server.Resource{URI: "x:" + name, Name: name, Title: s}, reader(s))
			},
			func(srv *server.Server, name, s string) error {
				return server.ReplaceResource(srv, server.Resource{URI: "x:" + name, Name: name, Title: s}, reader(s))
			},
			"resources/read", `"uri":"x:%s"`, resourcesChanged, `server: there is no resource "x:nope" to replace`},
		"static resource": {"resources/list",
			func(srv *server.Server, name, s string) error {
				return server.TryAddStaticResource(srv, server.Resource{URI: "x:" + name, Name: name, Title: s}, s)
			},
			func(srv *server.Server, name, s string) error {
				return server.ReplaceStaticResource(srv, server.Resource{URI: "x:" + name, Name: name, Title: s}, []byte(s))
			},
			"resources/read", `"uri":"x:%s"`, resourcesChanged, `server: there is no resource "x:nope" to replace`},
		"template": {"resources/templates/list",
			func(srv *server.Server, name, s string) error {
				return server.TryAddResourceTemplate(srv, server.ResourceTemplate{URITemplate: item(name), Name: name, Title: s}, vars(s))
			},
			func(srv *server.Server, name, s string) error {
				return server.ReplaceResourceTemplate(srv, server.ResourceTemplate{URITemplate: item(name), Name: name, Title: s}, vars(s))
			},
			"resources/read", `"uri":"x:%s1"`, resourcesChanged, `server: there is no resource template "x:nope{a}" to replace`},
	}
}

// What is replaced keeps its place: in the list, and for the cursors that clients have.
// Clients of both eras are told, and see the new one.
func TestReplaceKeepsThePlace(t *testing.T) {
	for kind, r := range replaceables() {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := newServer(t, server.WithPageSize(2))
				for _, name := range strings.Fields("e d c b a") {
					require.NoError(t, r.add(srv, name, "old"))
				}
				p, listening, old := dial(t, srv), dial(t, srv), dial(t, srv)
				old.initialize("2025-11-25")
				listening.ask(listenTo(9, everything))
				cursor := pageOf(t, p, r.list, "-").cursor // behind d
				synctest.Wait()
				before := p.ask(modern(1, r.list, fmt.Sprintf(`"cursor":%q`, cursor)))

				for _, name := range []string{"d", "c"} {
					require.NoError(t, r.replace(srv, name, "new"))
					require.JSONEq(t, about(9, r.changed, ""), listening.recv())
					require.Equal(t, notice(r.changed, ""), old.recv())
				}
				require.Equal(t, [][]string{{"e", "d"}, {"c", "b"}, {"a"}}, pagesOf(t, p, r.list))
				after := p.ask(modern(1, r.list, fmt.Sprintf(`"cursor":%q`, cursor)))
				require.Equal(t, 2, strings.Count(before, `"title":"old"`))
				require.Equal(t, 1, strings.Count(after, `"title":"new"`), after)
				require.Contains(t, old.ask(legacy(2, r.list, "")), `"title":"new"`)

				want := map[string]string{"c": "new", "b": "old"}
				for name, says := range want {
					params := fmt.Sprintf(r.params, name)
					for _, answer := range []string{p.ask(modern(3, r.use, params)), old.ask(legacy(3, r.use, params))} {
						if kind == "static resource" && says == "new" {
							says = `"blob":"bmV3"`
						}
						require.Contains(t, answer, says, name)
					}
				}

				// What cannot be changes nothing, and is not told.
				require.EqualError(t, r.replace(srv, "nope", "new"), r.unknown)
				synctest.Wait()
				listening.silent()
				old.silent()
				require.Equal(t, [][]string{{"e", "d"}, {"c", "b"}, {"a"}}, pagesOf(t, p, r.list))
				require.NoError(t, r.add(srv, "f", "old"))
				require.Equal(t, [][]string{{"e", "d"}, {"c", "b"}, {"a", "f"}}, pagesOf(t, p, r.list), "the next one comes last")
			})
		})
	}
}

// A bad replacement leaves the one that is there in its place.
func TestBadReplacements(t *testing.T) {
	srv := newServer(t)
	for _, r := range replaceables() {
		_ = r.add(srv, "x", "old") // a resource is there already
	}
	files := server.Files{URI: "y:/", Name: "n", FS: failingFS{}}
	require.NoError(t, server.TryAddFiles(srv, files))
	for name, err := range map[string]error{
		"tool, nil handler":       server.ReplaceTool[none, string](srv, server.Tool{Name: "x"}, nil),
		"tool, input":             server.ReplaceTool(srv, server.Tool{Name: "x"}, func(context.Context, *server.Call, string) (string, error) { return "", nil }),
		"prompt, nil handler":     server.ReplacePrompt(srv, server.Prompt{Name: "x"}, nil),
		"resource, no name":       server.ReplaceResource(srv, server.Resource{URI: "x:x"}, reader("new")),
		"static, no name":         server.ReplaceStaticResource(srv, server.Resource{URI: "x:x"}, "new"),
		"template, no name":       server.ReplaceResourceTemplate(srv, server.ResourceTemplate{URITemplate: "x:x{a}"}, echoVars),
		"another kind's template": server.ReplaceResource(srv, server.Resource{URI: "x:x1", Name: "n"}, reader("new")),
	} {
		require.Error(t, err, name)
	}
	p := dial(t, srv)
	for kind, r := range replaceables() {
		require.Contains(t, p.ask(modern(1, r.use, fmt.Sprintf(r.params, "x"))), "old", kind)
	}
}

// A call that runs goes on with the handler that it began with.
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
	require.NoError(t, server.ReplaceTool(srv, server.Tool{Name: "x"}, func(_ context.Context, _ *server.Call, in struct{ N int }) (string, error) {
		return fmt.Sprint("new ", in.N), nil
	}))
	require.Equal(t, notice(toolsChanged, ""), p.recv())
	require.Contains(t, p.ask(modern(3, "tools/call", call("x", `{"N":7}`))), "new 7")
	require.Contains(t, p.ask(legacy(4, "tools/call", call("x", `{"N":7}`))), "new 7")
	close(release)
	require.Contains(t, p.recv()+p.recv(), `"old"`)
}

// Whoever calls and lists while something is replaced finds it, and where it was.
func TestReplacedIsNeverAbsent(t *testing.T) {
	for kind, r := range replaceables() {
		t.Run(kind, func(t *testing.T) {
			srv := newServer(t)
			for _, name := range strings.Fields("a b c") {
				require.NoError(t, r.add(srv, name, "v"))
			}
			p := dial(t, srv)
			var replacing sync.WaitGroup
			replacing.Go(func() {
				for range 300 {
					if err := r.replace(srv, "b", "v"); err != nil {
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

// A resource that is replaced may read differently: who has subscribed to it is told,
// of that one alone.
func TestReplacedResourceIsUpdated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := changing(t)
		p, old := dial(t, srv), dial(t, srv)
		p.ask(listenTo(1, `{"resourceSubscriptions":["test://a","test://item/1"]}`))
		old.initialize("2025-11-25")
		old.ask(withURI(1, "resources/subscribe", "test://a"))
		old.ask(withURI(2, "resources/subscribe", "test://item/1"))
		synctest.Wait()

		require.NoError(t, server.ReplaceStaticResource(srv, server.Resource{URI: "test://a", Name: "a"}, "new"))
		require.JSONEq(t, updated(1, "test://a"), p.recv())
		synctest.Wait()
		told := []string{old.recv(), old.recv()}
		require.ElementsMatch(t, []string{
			notice(resourcesChanged, ""), notice("notifications/resources/updated", `{"uri":"test://a"}`),
		}, told)
		require.Contains(t, p.ask(modern(2, "resources/read", uri("test://a"))), `"text":"new"`)

		require.NoError(t, server.ReplaceResourceTemplate(srv, server.ResourceTemplate{URITemplate: "test://item/{id}", Name: "items"}, echoVars))
		require.Equal(t, notice(resourcesChanged, ""), old.recv(), "the list, and nobody knows which of the family")
		require.Error(t, server.ReplaceResource(srv, server.Resource{URI: "test://a"}, reader("newer")))
		p.silent()
		old.silent()
	})
}

// A template keeps its place among those that a URI matches, and completes as the new
// one does.
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
	require.NoError(t, server.ReplaceResourceTemplate(srv, server.ResourceTemplate{
		URITemplate: "x:{a}", Name: "n",
		Complete: map[string]server.CompleteFunc{"a": func(context.Context, *server.Call, string, map[string]string) ([]string, error) {
			return []string{"new"}, nil
		}},
	}, echoVars))
	require.Equal(t, "map[a:1]", read())
	values, err := client.CompleteResource(t.Context(), "x:{a}", "a", "", nil)
	require.NoError(t, err)
	require.Equal(t, []string{"new"}, values.Values)
}

// What panics at start-up is an error at run time, after which nothing is there.
func TestTryAddStaticResourceAndFiles(t *testing.T) {
	srv := newServer(t)
	require.NoError(t, server.TryAddStaticResource(srv, server.Resource{URI: "x:a", Name: "a"}, "content"))
	require.NoError(t, server.TryAddFiles(srv, server.Files{URI: "y:/", Name: "files", FS: failingFS{}}))
	require.Error(t, server.TryAddStaticResource(srv, server.Resource{URI: "x:a", Name: "again"}, "other"))
	require.Error(t, server.TryAddStaticResource(srv, server.Resource{URI: "x:b"}, []byte("no name")))
	require.Error(t, server.TryAddStaticResource(srv, server.Resource{URI: "no scheme", Name: "n"}, "other"))
	for _, bad := range []server.Files{
		{URI: "z:/", Name: "no FS"}, {URI: "z:", Name: "no slash", FS: failingFS{}}, {URI: "z:/{a}/", Name: "brace", FS: failingFS{}},
		{URI: "z:/", Name: "limit", FS: failingFS{}, MaxBytes: -1}, {URI: "z:/", FS: failingFS{}}, {URI: "y:/", Name: "taken", FS: failingFS{}},
	} {
		require.Error(t, server.TryAddFiles(srv, bad), bad.Name)
	}
	require.Panics(t, func() { server.AddStaticResource(srv, server.Resource{URI: "x:a", Name: "again"}, "other") })

	client := servertest.Connect(t, srv)
	resources, err := client.ListResources(t.Context())
	require.NoError(t, err)
	require.Len(t, resources, 1)
	require.Equal(t, mcp.Resource{URI: "x:a", Name: "a", Size: 7}, resources[0])
	templates, err := client.ListResourceTemplates(t.Context())
	require.NoError(t, err)
	require.Len(t, templates, 1)
	require.Equal(t, "files", templates[0].Name)
	srv.RemoveResourceTemplates("y:/{+path}")
	templates, err = client.ListResourceTemplates(t.Context())
	require.NoError(t, err)
	require.Empty(t, templates)
}
