package era

import (
	"slices"
	"sync/atomic"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// maxPages bounds the encoded pages of one list. That is a few pages for each revision.
const maxPages = 16

// pages caches encoded pages of one list, because most clients ask for the same pages. The key of
// a page is its entries, so that a changed list needs no invalidation: it has other entries. Only
// pages of registered entries are kept, because these are never changed. The plain version encodes each
// page for each answer (BenchmarkRequests/list).
type pages[T comparable] struct {
	registered func(entries []T) bool
	kept       atomic.Pointer[[]page[T]] // copied on write
}

// A page is one page of a list as clients of one revision see it.
type page[T comparable] struct {
	version mcp.Version
	entries []T
	next    string
	hint    mcp.CacheHint
	// rest is the JSON of the page from its first member on, with one brace more at the end.
	rest []byte
}

// find returns the rest of an answer with a page, or nil.
func (p *pages[T]) find(v mcp.Version, entries []T, next string, hint mcp.CacheHint) []byte {
	kept := p.kept.Load()
	if kept == nil {
		return nil
	}
	for i := range *kept {
		known := &(*kept)[i]
		if known.version == v && known.next == next && sameHint(known.hint, hint) && slices.Equal(known.entries, entries) {
			return known.rest
		}
	}
	return nil
}

func sameHint(a, b mcp.CacheHint) bool {
	return a.Scope == b.Scope && (a.TTL == b.TTL || a.TTL != nil && b.TTL != nil && *a.TTL == *b.TTL)
}

// keep adds a page, in the place of the oldest one if there are maxPages. members is its JSON
// without the first brace.
func (p *pages[T]) keep(v mcp.Version, entries []T, next string, hint mcp.CacheHint, members []byte) {
	if !p.registered(entries) {
		return
	}
	now := page[T]{v, slices.Clone(entries), next, hint, append(slices.Clip(slices.Clone(members)), '}')}
	for {
		old := p.kept.Load()
		kept := []page[T]{now}
		if old != nil {
			kept = append(kept, (*old)[:min(len(*old), maxPages-1)]...)
		}
		if p.kept.CompareAndSwap(old, &kept) {
			return
		}
	}
}
