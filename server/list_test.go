package server_test

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// A page is one answer to a list method.
type page struct {
	names  []string
	cursor string
}

// pageOf asks for one page of a list; cursor "-" asks without one.
func pageOf(t *testing.T, p *rawPipe, method, cursor string, meta ...string) page {
	t.Helper()
	params := ""
	if cursor != "-" {
		params = fmt.Sprintf(`"cursor":%q`, cursor)
	}
	var answer struct {
		Result struct {
			Tools, Prompts, Resources []struct{ Name string }
			ResourceTemplates         []struct{ Name string }
			NextCursor                string
		}
		Error *mcp.Error
	}
	got := p.ask(modern(1, method, params, meta...))
	require.NoError(t, json.Unmarshal([]byte(got), &answer, json.MatchCaseInsensitiveNames(true)))
	require.Nil(t, answer.Error, got)
	r := answer.Result
	one := page{cursor: r.NextCursor}
	for _, entry := range slices.Concat(r.Tools, r.Prompts, r.Resources, r.ResourceTemplates) {
		one.names = append(one.names, entry.Name)
	}
	return one
}

// pagesOf asks for all pages of a list.
func pagesOf(t *testing.T, p *rawPipe, method string, meta ...string) (all [][]string) {
	t.Helper()
	for next := "-"; next != ""; {
		got := pageOf(t, p, method, next, meta...)
		all, next = append(all, got.names), got.cursor
	}
	return all
}

// A paged is one of the lists.
type paged struct {
	method string
	add    func(srv *server.Server, name string)
	remove func(srv *server.Server, name string)
}

func pagedLists() map[string]paged {
	return map[string]paged{
		"tool": {"tools/list",
			func(srv *server.Server, name string) { server.AddTool(srv, server.Tool{Name: name}, text("")) },
			func(srv *server.Server, name string) { srv.RemoveTools(name) }},
		"prompt": {"prompts/list",
			func(srv *server.Server, name string) { server.AddPrompt(srv, server.Prompt{Name: name}, say("")) },
			func(srv *server.Server, name string) { srv.RemovePrompts(name) }},
		"resource": {"resources/list",
			func(srv *server.Server, name string) {
				server.AddResource(srv, server.Resource{URI: "x:" + name, Name: name}, reader(""))
			},
			func(srv *server.Server, name string) { srv.RemoveResources("x:" + name) }},
		"template": {"resources/templates/list",
			func(srv *server.Server, name string) {
				server.AddResourceTemplate(srv, server.ResourceTemplate{URITemplate: "x:" + name + "{a}", Name: name}, echoVars)
			},
			func(srv *server.Server, name string) { srv.RemoveResourceTemplates("x:" + name + "{a}") }},
	}
}

func TestPages(t *testing.T) {
	for kind, list := range pagedLists() {
		t.Run(kind, func(t *testing.T) {
			srv := newServer(t, server.WithPageSize(3))
			for _, name := range strings.Fields("g f e d c b a") {
				list.add(srv, name)
			}
			p := dial(t, srv)
			require.Equal(t, [][]string{{"g", "f", "e"}, {"d", "c", "b"}, {"a"}}, pagesOf(t, p, list.method), "in the order of registration")
			first, second := pageOf(t, p, list.method, "-"), pageOf(t, p, list.method, pageOf(t, p, list.method, "-").cursor)
			require.Equal(t, first, pageOf(t, p, list.method, ""), "the empty cursor is the first page")

			// A client in the middle of the list skips nothing and sees nothing twice.
			list.remove(srv, "e") // the last of the first page, behind which its cursor points
			list.remove(srv, "g")
			require.Equal(t, []string{"d", "c", "b"}, pageOf(t, p, list.method, first.cursor).names)
			list.remove(srv, "c")
			list.add(srv, "h")
			list.add(srv, "c") // comes back at the end
			third := pageOf(t, p, list.method, first.cursor)
			require.Equal(t, []string{"d", "b", "a"}, third.names)
			require.Equal(t, page{names: []string{"h", "c"}}, pageOf(t, p, list.method, third.cursor), "what is new comes last")
			require.Equal(t, page{names: []string{"a", "h", "c"}}, pageOf(t, p, list.method, second.cursor))
			for _, name := range strings.Fields("a h c") {
				list.remove(srv, name)
			}
			require.Equal(t, page{}, pageOf(t, p, list.method, second.cursor), "a list that has got shorter")
			require.Equal(t, [][]string{{"f", "d", "b"}}, pagesOf(t, p, list.method), "a full last page has no cursor")
		})
	}
}

// Replicas that register the same agree on the cursors.
func TestCursorsOfReplicas(t *testing.T) {
	for kind, list := range pagedLists() {
		t.Run(kind, func(t *testing.T) {
			var cursors [2]string
			for i := range cursors {
				srv := newServer(t, server.WithPageSize(1))
				list.add(srv, "a")
				list.add(srv, "b")
				cursors[i] = pageOf(t, dial(t, srv), list.method, "-").cursor
			}
			require.NotEmpty(t, cursors[0])
			require.Equal(t, cursors[0], cursors[1])
		})
	}
}

func TestBadCursors(t *testing.T) {
	srv := newServer(t, server.WithPageSize(1))
	for _, list := range pagedLists() {
		for _, name := range strings.Fields("a b c") {
			list.add(srv, name)
		}
	}
	p := dial(t, srv)
	for kind, list := range pagedLists() {
		good := pageOf(t, p, list.method, "-").cursor
		encode := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
		bad := map[string]string{
			"text": "abc", "padded": good + "=", "cut": good[1:], "longer": good + "A", "spaces": " " + good,
			"other version": encode("2 " + kind + " 1"), "negative": encode("1 " + kind + " -1"), "signed": encode("1 " + kind + " +1"),
			"leading zero": encode("1 " + kind + " 01"), "no number": encode("1 " + kind + " x"), "too large": encode("1 " + kind + " 9223372036854775808"),
			"no kind": encode("1  1"), "upper case": encode("1 " + strings.ToUpper(kind) + " 1"),
		}
		for other, l := range pagedLists() {
			if other != kind {
				bad["of "+other] = pageOf(t, p, l.method, "-").cursor
			}
		}
		for name, cursor := range bad {
			t.Run(kind+" "+name, func(t *testing.T) {
				require.NotEmpty(t, cursor)
				require.JSONEq(t, failure(1, -32602, "params.cursor is none that this server has issued"),
					p.ask(modern(1, list.method, fmt.Sprintf(`"cursor":%q`, cursor))))
			})
		}
		require.JSONEq(t, failure(1, -32602, "params.cursor must be a string"), p.ask(modern(1, list.method, `"cursor":7`)))
	}
}

func TestPageSizes(t *testing.T) {
	_, err := server.TryNew("n", "1", server.WithPageSize(-1))
	require.ErrorContains(t, err, "neither the page size nor the list TTL may be negative")
	srv := newServer(t)
	for i := range 1001 {
		server.AddResource(srv, server.Resource{URI: fmt.Sprint("x:", i), Name: "n"}, reader(""))
	}
	pages := pagesOf(t, dial(t, srv), "resources/list")
	require.Len(t, pages, 2)
	require.Len(t, pages[0], 1000, "the default")
}

// Items are registered and removed while clients list and read.
func TestChangesWhileServing(t *testing.T) {
	for kind, list := range pagedLists() {
		t.Run(kind, func(t *testing.T) {
			srv := newServer(t, server.WithPageSize(2))
			for i := range 5 {
				list.add(srv, fmt.Sprint("kept-", i))
			}
			stop := make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
						list.add(srv, fmt.Sprint("passing-", i))
						list.remove(srv, fmt.Sprint("passing-", i))
					}
				}
			})
			p := dial(t, srv)
			for range 20 {
				var kept []string
				for _, name := range slices.Concat(pagesOf(t, p, list.method)...) {
					if strings.HasPrefix(name, "kept-") {
						kept = append(kept, name)
					}
				}
				require.Equal(t, []string{"kept-0", "kept-1", "kept-2", "kept-3", "kept-4"}, kept)
				require.Contains(t, p.ask(modern(1, "resources/read", uri("x:kept-1"))), `"id":1`)
				require.Contains(t, p.ask(modern(1, "prompts/get", `"name":"passing-1"`)), `"id":1`)
			}
			close(stop)
			wg.Wait()
		})
	}
}

// A capability is announced from the first registration on.
func TestAnnouncements(t *testing.T) {
	srv := newServer(t)
	p, old := dial(t, srv), oldPipe(t, srv, mcp.Version20251125)
	announced := func(of string) bool {
		t.Helper()
		discovered := strings.Contains(p.ask(modern(1, "server/discover", "")), of)
		q := dial(t, srv)
		initialized := strings.Contains(q.ask(legacy(1, "initialize", `"protocolVersion":"2025-11-25","capabilities":{}`)), of)
		require.Equal(t, discovered, initialized)
		return discovered
	}
	exists := func(method, params string) bool {
		t.Helper()
		missing := failure(1, -32601, fmt.Sprintf("the server has nothing for %q", method))
		now, before := p.ask(modern(1, method, params)), old.ask(legacy(1, method, params))
		require.Equal(t, now == missing, before == missing)
		return now != missing
	}
	type use struct{ method, params string }
	for _, feature := range []struct {
		announced string
		uses      []use
		add       func(srv *server.Server)
	}{
		{`"prompts":{"listChanged":true}`, []use{{"prompts/list", ""}, {"prompts/get", `"name":"a"`}}, func(srv *server.Server) {
			server.AddPrompt(srv, server.Prompt{Name: "a", Arguments: []server.PromptArgument{{Name: "a"}}}, say(""))
			srv.RemovePrompts("a")
		}},
		{`"resources":{`, []use{{"resources/list", ""}, {"resources/templates/list", ""}, {"resources/read", uri("x:1")}}, func(srv *server.Server) {
			server.AddResourceTemplate(srv, server.ResourceTemplate{URITemplate: "x:{a}", Name: "n"}, echoVars)
		}},
		{`"completions":{}`, []use{{"completion/complete", ""}}, func(srv *server.Server) {
			server.AddResourceTemplate(srv, server.ResourceTemplate{URITemplate: "y:{a}", Name: "n",
				Complete: map[string]server.CompleteFunc{"a": server.CompleteFrom()}}, echoVars)
		}},
	} {
		require.False(t, announced(feature.announced), feature.announced)
		for _, u := range feature.uses {
			require.False(t, exists(u.method, u.params), u.method)
		}
		feature.add(newServer(t)) // another server is none of its business
		require.False(t, announced(feature.announced), feature.announced)
		old.hangUp() // it would be told of the change
		feature.add(srv)
		old = oldPipe(t, srv, mcp.Version20251125)
		require.True(t, announced(feature.announced), feature.announced)
		for _, u := range feature.uses {
			require.True(t, exists(u.method, u.params), u.method)
		}
	}
	one := newServer(t)
	server.AddStaticResource(one, server.Resource{URI: "x:y", Name: "n"}, "")
	require.Contains(t, dial(t, one).ask(modern(1, "server/discover", "")), `"resources":{`)
	require.Contains(t, dial(t, one).ask(modern(1, "resources/templates/list", "")), `"resourceTemplates":[]`)
}
