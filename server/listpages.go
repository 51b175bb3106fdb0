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
// page is not that page any more.
type listPages[T comparable] struct {
	pages atomic.Pointer[[]listPage[T]] // copied on write
}

// A listPage is one page as clients of one revision see it.
type listPage[T comparable] struct {
	version mcp.Version
	entries []T
	next    string
	hint    mcp.CacheHint
	json    []byte
}

// find returns the JSON of a page, or nil.
func (p *listPages[T]) find(page listPage[T]) []byte {
	pages := p.pages.Load()
	if pages == nil {
		return nil
	}
	for i := range *pages {
		if known := &(*pages)[i]; known.is(&page) {
			return known.json
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
func (p *listPages[T]) keep(page listPage[T]) {
	page.entries, page.json = slices.Clone(page.entries), slices.Clone(page.json)
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

// appendPage appends the JSON of a page, which encode appends if it is not known.
func (p *listPages[T]) appendPage(
	dst []byte, page listPage[T], encode func(dst []byte) ([]byte, error),
) ([]byte, error) {
	if known := p.find(page); known != nil {
		return append(dst, known...), nil
	}
	at := len(dst)
	dst, err := encode(dst)
	if err == nil {
		page.json = dst[at:]
		p.keep(page)
	}
	return dst, err
}

// appendResult appends the JSON of a result as the revision of its reader wants it,
// which encode appends if it is no page of a list that is known.
func (s *Server) appendResult(
	dst []byte, v mcp.Version, result mcp.Result, encode func(dst []byte) ([]byte, error),
) ([]byte, error) {
	if len(*result.ResultMetadata()) > 0 {
		return encode(dst)
	}
	switch r := result.(type) {
	case *mcp.ListToolsResult:
		return s.toolPages.appendPage(dst, listPage[*mcp.Tool]{
			version: v, entries: r.Tools, next: r.NextCursor, hint: r.CacheHint}, encode)
	case *mcp.ListPromptsResult:
		return s.promptPages.appendPage(dst, listPage[*mcp.Prompt]{
			version: v, entries: r.Prompts, next: r.NextCursor, hint: r.CacheHint}, encode)
	case *mcp.ListResourcesResult:
		return s.resourcePages.appendPage(dst, listPage[*mcp.Resource]{
			version: v, entries: r.Resources, next: r.NextCursor, hint: r.CacheHint}, encode)
	case *mcp.ListResourceTemplatesResult:
		return s.templatePages.appendPage(dst, listPage[*mcp.ResourceTemplate]{
			version: v, entries: r.ResourceTemplates, next: r.NextCursor, hint: r.CacheHint}, encode)
	}
	return encode(dst)
}
