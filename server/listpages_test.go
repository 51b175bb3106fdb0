package server

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
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// pagesServer has two tools.
func pagesServer(t *testing.T, opts ...Option) *Server {
	opts = append(opts, WithTelemetry(telemetry.Disabled()), WithLogger(slog.New(slog.DiscardHandler)))
	s := New("pages", "1", opts...)
	for _, name := range []string{"a", "b"} {
		addPlain(s, name, "about "+name)
	}
	t.Cleanup(func() { require.NoError(t, s.Shutdown(context.Background())) })
	return s
}

func addPlain(s *Server, name, description string) {
	AddTool(s, Tool{Name: name, Title: "T", Description: description}, func(context.Context, *Call, struct{}) (string, error) { return "", nil })
}

// list returns what clients of a revision get for a list of the server's tools.
func (s *Server) list(t *testing.T, v mcp.Version, change ...func(*mcp.ListToolsResult)) string {
	t.Helper()
	var defs []*mcp.Tool
	for _, e := range s.tools.all() {
		defs = append(defs, e.def)
	}
	result := &mcp.ListToolsResult{Tools: defs, CacheHint: s.listHint()}
	for _, f := range change {
		f(result)
	}
	era, _ := v.Era()
	json, rest, err := s.encode(nil, era, v, result)
	require.NoError(t, err)
	if rest == nil {
		return string(json)
	}
	return strings.TrimSuffix(string(json)+string(rest), "}")
}

// A page that is known is the same, byte by byte, as one that is not; what differs in
// anything that a client can see is another page.
func TestListPages(t *testing.T) {
	versions := slices.Concat(mcp.Versions(mcp.Legacy), mcp.Versions(mcp.Modern))
	require.Greater(t, len(versions), 3)
	s := pagesServer(t)
	for _, v := range versions {
		fresh := pagesServer(t).list(t, v)
		require.Equal(t, fresh, s.list(t, v), "%s, the first time", v)
		require.Equal(t, fresh, s.list(t, v), "%s, the second time", v)
	}
	require.Len(t, *s.toolPages.pages.Load(), len(versions), "each revision has its own page, and only one")

	modern := s.list(t, mcp.LatestVersion)
	for name, change := range map[string]func(*mcp.ListToolsResult){
		"entry less":     func(r *mcp.ListToolsResult) { r.Tools = r.Tools[:1] },
		"no entry":       func(r *mcp.ListToolsResult) { r.Tools = []*mcp.Tool{} },
		"order":          func(r *mcp.ListToolsResult) { slices.Reverse(r.Tools) },
		"copy of a tool": func(r *mcp.ListToolsResult) { c := *r.Tools[0]; c.Title = "other"; r.Tools[0] = &c },
		"cursor":         func(r *mcp.ListToolsResult) { r.NextCursor = "x" },
		"hint":           func(r *mcp.ListToolsResult) { ttl := int64(7); r.TTL = &ttl },
		"scope":          func(r *mcp.ListToolsResult) { r.Scope = mcp.CachePrivate },
		"meta":           func(r *mcp.ListToolsResult) { r.Meta = mcp.Meta{"k": 1} },
	} {
		t.Run(name, func(t *testing.T) {
			changed := s.list(t, mcp.LatestVersion, change)
			require.NotEqual(t, modern, changed)
			require.Equal(t, changed, s.list(t, mcp.LatestVersion, change))
			require.Equal(t, changed, pagesServer(t).list(t, mcp.LatestVersion, change))
			require.Equal(t, modern, s.list(t, mcp.LatestVersion))
		})
	}
}

// A change of the list shows at once, and pages that nobody asks for any more are let go.
func TestListPagesChange(t *testing.T) {
	s := pagesServer(t)
	before := s.list(t, mcp.LatestVersion)
	s.RemoveTools("a")
	require.NotEqual(t, before, s.list(t, mcp.LatestVersion))
	for i := range 3 * maxListPages {
		name := fmt.Sprint("more", i)
		addPlain(s, name, "about "+name)
		require.Contains(t, s.list(t, mcp.LatestVersion), `"`+name+`"`)
	}
	require.Len(t, *s.toolPages.pages.Load(), maxListPages)
}

// What middleware has made itself it may also change: it is encoded each time.
func TestListPagesOfOthers(t *testing.T) {
	s, own := pagesServer(t), &mcp.Tool{Name: "own"}
	for i := range 3 {
		own.Description = fmt.Sprint(i, " calls left")
		got := s.list(t, mcp.LatestVersion, func(r *mcp.ListToolsResult) { r.Tools = append(r.Tools, own) })
		require.Contains(t, got, own.Description)
	}
	require.Nil(t, s.toolPages.pages.Load())
}

// A list is made once and not for each caller, unless somebody else sees it on its way, who
// may do with it as he likes.
func TestListsAreShared(t *testing.T) {
	listed := func(s *Server) []*mcp.Tool {
		list := listOf(s, &s.tools, func(defs []*mcp.Tool, next string, _ mcp.CacheHint) mcp.Result {
			return &mcp.ListToolsResult{Tools: defs, NextCursor: next}
		})
		result, err := list(t.Context(), &middleware.Request{})
		require.NoError(t, err)
		return result.(*mcp.ListToolsResult).Tools
	}
	s := pagesServer(t)
	first, again := listed(s), listed(s)
	require.Len(t, first, 2)
	require.Same(t, &first[0], &again[0])
	require.Equal(t, len(first), cap(first), "what is appended is nobody else's")
	addPlain(s, "c", "about c")
	s.RemoveTools("a")
	require.Len(t, listed(s), 2)
	require.Equal(t, []string{"a", "b"}, []string{first[0].Name, first[1].Name}, "who has a list keeps it")

	s = pagesServer(t, WithMiddleware(func(next middleware.Handler) middleware.Handler { return next }))
	first = listed(s)
	slices.Reverse(first)
	require.Equal(t, "a", listed(s)[0].Name)
}
