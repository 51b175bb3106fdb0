package era

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// A catalog is a list of tools, and an encoder that knows it.
type catalog struct {
	*Encoder
	tools []*mcp.Tool
}

// newCatalog has two tools.
func newCatalog(t *testing.T) *catalog {
	c := &catalog{}
	for _, name := range []string{"a", "b"} {
		c.add(name)
	}
	encoder, err := NewEncoder(mcp.Implementation{Name: "pages", Version: "1"}, mcp.CachePublic, Registered{
		Tools: func(entries []*mcp.Tool) bool {
			return !slices.ContainsFunc(entries, func(e *mcp.Tool) bool { return !slices.Contains(c.tools, e) })
		},
	})
	require.NoError(t, err)
	c.Encoder = encoder
	return c
}

func (c *catalog) add(name string) {
	c.tools = append(c.tools, &mcp.Tool{Name: name, Title: "T", Description: "about " + name})
}

// list returns what clients of a revision get for a list of the tools.
func (c *catalog) list(t *testing.T, v mcp.Version, change ...func(*mcp.ListToolsResult)) string {
	t.Helper()
	result := &mcp.ListToolsResult{Tools: slices.Clone(c.tools), CacheHint: mcp.CacheFor(0, mcp.CachePublic)}
	for _, f := range change {
		f(result)
	}
	era, _ := v.Era()
	json, rest, err := c.Encode(nil, era, v, result)
	require.NoError(t, err)
	if rest == nil {
		return string(json)
	}
	return strings.TrimSuffix(string(json)+string(rest), "}")
}

// A kept page is the same, byte by byte, as a new one. Any difference that a client can see
// makes another page.
func TestListPages(t *testing.T) {
	versions := slices.Concat(mcp.Versions(mcp.Legacy), mcp.Versions(mcp.Modern))
	require.Greater(t, len(versions), 3)
	c := newCatalog(t)
	for _, v := range versions {
		fresh := newCatalog(t).list(t, v)
		require.Equal(t, fresh, c.list(t, v), "%s, the first time", v)
		require.Equal(t, fresh, c.list(t, v), "%s, the second time", v)
	}
	require.Len(t, *c.Encoder.tools.kept.Load(), len(versions), "each revision has its own page, and only one")

	modern := c.list(t, mcp.LatestVersion)
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
			changed := c.list(t, mcp.LatestVersion, change)
			require.NotEqual(t, modern, changed)
			require.Equal(t, changed, c.list(t, mcp.LatestVersion, change))
			require.Equal(t, changed, newCatalog(t).list(t, mcp.LatestVersion, change))
			require.Equal(t, modern, c.list(t, mcp.LatestVersion))
		})
	}
}

// A change of the list shows at once, and old pages are removed.
func TestListPagesChange(t *testing.T) {
	c := newCatalog(t)
	before := c.list(t, mcp.LatestVersion)
	c.tools = c.tools[1:]
	require.NotEqual(t, before, c.list(t, mcp.LatestVersion))
	for i := range 3 * maxPages {
		name := fmt.Sprint("more", i)
		c.add(name)
		require.Contains(t, c.list(t, mcp.LatestVersion), `"`+name+`"`)
	}
	require.Len(t, *c.Encoder.tools.kept.Load(), maxPages)
}

// Entries of a middleware are encoded each time, because it may change them.
func TestListPagesOfOthers(t *testing.T) {
	c, own := newCatalog(t), &mcp.Tool{Name: "own"}
	for i := range 3 {
		own.Description = fmt.Sprint(i, " calls left")
		got := c.list(t, mcp.LatestVersion, func(r *mcp.ListToolsResult) { r.Tools = append(r.Tools, own) })
		require.Contains(t, got, own.Description)
	}
	require.Nil(t, c.Encoder.tools.kept.Load())
}
