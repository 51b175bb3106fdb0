package oauth

import "github.com/vitrine-mcp/vitrine/auth"

// What parts of a remembered token take in memory at most, in bytes.
const (
	sizeOfEntry  = 640 // the principal, the entry and its place in the cache
	sizeOfValue  = 32  // of an any, with what a number takes and the allocator rounds up
	sizeOfMap    = 64
	sizeOfGroup  = 272 // the places of a map for its first eight members
	sizeOfMember = 64  // key and value in a larger map, with its free places
	sizeOfList   = 32
	sizeOfText   = 24 // beside its bytes
)

// sizeOf returns what a principal takes in memory, with its claims. Its other texts are those of the
// claims, or few.
func sizeOf(p *auth.Principal) int {
	size := sizeOfEntry + sizeOfClaim(p.Claims)
	for _, list := range [][]string{p.Scopes, p.Actors} {
		for _, text := range list {
			size += sizeOfText + len(text)
		}
	}
	return size
}

// sizeOfClaim returns what a decoded JSON value takes in memory.
func sizeOfClaim(v any) int {
	size := sizeOfValue
	switch v := v.(type) {
	case string:
		size += len(v) + sizeOfText
	case []any:
		size += sizeOfList
		for _, e := range v {
			size += sizeOfClaim(e)
		}
	case map[string]any:
		size += sizeOfMap
		if len(v) > 0 {
			size += sizeOfGroup + max(len(v)-8, 0)*sizeOfMember
		}
		for name, e := range v {
			size += len(name) + sizeOfClaim(e)
		}
	}
	return size
}
