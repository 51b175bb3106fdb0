package server

import (
	"context"
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

// A change of the list shows at once, although its pages are kept as JSON.
func TestListChangeShowsAtOnce(t *testing.T) {
	s := pagesServer(t)
	list := func() string {
		_, defs := s.tools.listed()
		json, rest, err := s.encoder.Encode(nil, mcp.Modern, mcp.LatestVersion, &mcp.ListToolsResult{Tools: defs, CacheHint: s.listHint()})
		require.NoError(t, err)
		if rest == nil {
			return string(json)
		}
		return strings.TrimSuffix(string(json)+string(rest), "}")
	}
	before := list()
	require.Equal(t, before, list())
	s.RemoveTools("a")
	require.NotEqual(t, before, list())
	addPlain(s, "more", "about more")
	require.Contains(t, list(), `"more"`)
}

// A list is made once for all callers, unless the program has middlewares, which may change it.
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
	require.Equal(t, len(first), cap(first), "an append copies the list")
	addPlain(s, "c", "about c")
	s.RemoveTools("a")
	require.Len(t, listed(s), 2)
	require.Equal(t, []string{"a", "b"}, []string{first[0].Name, first[1].Name}, "a list that was returned does not change")

	s = pagesServer(t, WithMiddleware(func(next middleware.Handler) middleware.Handler { return next }))
	first = listed(s)
	slices.Reverse(first)
	require.Equal(t, "a", listed(s)[0].Name)
}
