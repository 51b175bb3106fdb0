package server

import (
	"slices"
	"sync/atomic"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// maxListPages bounds how many pages of one list are kept as JSON: a few pages for each
// revision that clients speak.
const maxListPages = 16

// A listPages keeps pages of one list as JSON, because most clients ask for the same ones
// again and again. A page is known by its entries, so that nothing has to be told of a
// change: a list that has changed has other entries, and what middleware has made of a
// page is not that page any more. Only entries that are registered are trusted to stay as
// they are.
type listPages[T comparable] struct {
	pages atomic.Pointer[[]listPage[T]] // copied on write
}

// A listPage is one page as clients of one revision see it.
type listPage[T comparable] struct {
	version mcp.Version
	entries []T
	next    string
	hint    mcp.CacheHint
	// rest is the JSON of the page from its first member on, and one brace more.
	rest []byte
}

// find returns the rest of an answer with a page, or nil.
func (p *listPages[T]) find(page listPage[T]) []byte {
	pages := p.pages.Load()
	if pages == nil {
		return nil
	}
	for i := range *pages {
		if known := &(*pages)[i]; known.is(&page) {
			return known.rest
		}
	}
	return nil
}

func (p *listPage[T]) is(other *listPage[T]) bool {
	return p.version == other.version && p.next == other.next && sameHint(p.hint, other.hint) &&
		slices.Equal(p.entries, other.entries)
}

func sameHint(a, b mcp.CacheHint) bool {
	return a.Scope == b.Scope && (a.TTL == b.TTL || a.TTL != nil && b.TTL != nil && *a.TTL == *b.TTL)
}

// keep remembers a page in the place of the oldest.
func (p *listPages[T]) keep(page listPage[T], members []byte) {
	page.entries, page.rest = slices.Clone(page.entries), append(slices.Clip(slices.Clone(members)), '}')
	for {
		old := p.pages.Load()
		pages := []listPage[T]{page}
		if old != nil {
			pages = append(pages, (*old)[:min(len(*old), maxListPages-1)]...)
		}
		if p.pages.CompareAndSwap(old, &pages) {
			return
		}
	}
}

// knownPage returns the rest of an answer with a page of a list for clients of a
// revision, or nil.
func (s *Server) knownPage(v mcp.Version, result mcp.Result) []byte {
	if len(*result.ResultMetadata()) > 0 {
		return nil
	}
	switch r := result.(type) {
	case *mcp.ListToolsResult:
		return s.toolPages.find(toolsPage(v, r))
	case *mcp.ListPromptsResult:
		return s.promptPages.find(promptsPage(v, r))
	case *mcp.ListResourcesResult:
		return s.resourcePages.find(resourcesPage(v, r))
	case *mcp.ListResourceTemplatesResult:
		return s.templatePages.find(templatesPage(v, r))
	}
	return nil
}

// keepPage remembers a result, of which members is the JSON without the first brace, if
// it is a page of a list.
func (s *Server) keepPage(v mcp.Version, result mcp.Result, members []byte) {
	if len(*result.ResultMetadata()) > 0 {
		return
	}
	switch r := result.(type) {
	case *mcp.ListToolsResult:
		if s.tools.holds(r.Tools) {
			s.toolPages.keep(toolsPage(v, r), members)
		}
	case *mcp.ListPromptsResult:
		if s.prompts.holds(r.Prompts) {
			s.promptPages.keep(promptsPage(v, r), members)
		}
	case *mcp.ListResourcesResult:
		if s.resources.holds(r.Resources) {
			s.resourcePages.keep(resourcesPage(v, r), members)
		}
	case *mcp.ListResourceTemplatesResult:
		if s.templates.holds(r.ResourceTemplates) {
			s.templatePages.keep(templatesPage(v, r), members)
		}
	}
}

func toolsPage(v mcp.Version, r *mcp.ListToolsResult) listPage[*mcp.Tool] {
	return listPage[*mcp.Tool]{version: v, entries: r.Tools, next: r.NextCursor, hint: r.CacheHint}
}

func promptsPage(v mcp.Version, r *mcp.ListPromptsResult) listPage[*mcp.Prompt] {
	return listPage[*mcp.Prompt]{version: v, entries: r.Prompts, next: r.NextCursor, hint: r.CacheHint}
}

func resourcesPage(v mcp.Version, r *mcp.ListResourcesResult) listPage[*mcp.Resource] {
	return listPage[*mcp.Resource]{version: v, entries: r.Resources, next: r.NextCursor, hint: r.CacheHint}
}

func templatesPage(v mcp.Version, r *mcp.ListResourceTemplatesResult) listPage[*mcp.ResourceTemplate] {
	return listPage[*mcp.ResourceTemplate]{version: v, entries: r.ResourceTemplates, next: r.NextCursor, hint: r.CacheHint}
}
