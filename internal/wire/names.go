package wire

import (
	"bytes"
	"hash/maphash"
	"math/bits"

	"github.com/go-json-experiment/json/jsontext"
)

// A nameStack holds the names of the members of all objects that are open. Names are
// compared when their object ends: then one object is compared at a time, and the number
// of its names is known.
type nameStack struct {
	frame []byte
	// names are parts of the frame, or, from len(frame) on, of unescaped.
	names     []span
	unescaped []byte   // the texts of the names that have escapes
	table     []uint32 // the hash table of distinct, kept for the next large object
}

// maxIdleNames bounds the memory that an idle nameStack keeps.
const maxIdleNames = 1 << 10

// reset forgets the frame and its names. It keeps their memory unless that is large: a
// frame may have any number of names.
func (n *nameStack) reset() {
	if cap(n.names) > maxIdleNames || cap(n.unescaped) > 16*maxIdleNames || cap(n.table) > 4*maxIdleNames {
		*n = nameStack{}
	}
	n.frame, n.names, n.unescaped = nil, n.names[:0], n.unescaped[:0]
}

// A nameMark is the height of the stack before an object.
type nameMark struct{ names, unescaped int }

func (n *nameStack) mark() nameMark { return nameMark{len(n.names), len(n.unescaped)} }

// push adds a name, given with its quotes, and returns its text.
func (n *nameStack) push(quoted span, escaped bool) []byte {
	name := span{quoted.start + len(`"`), quoted.end - len(`"`)}
	if escaped {
		start := len(n.unescaped)
		n.unescaped, _ = jsontext.AppendUnquote(n.unescaped, n.frame[quoted.start:quoted.end]) // the scanner has validated it
		name = span{len(n.frame) + start, len(n.frame) + len(n.unescaped)}
	}
	n.names = append(n.names, name)
	return n.text(name)
}

func (n *nameStack) text(name span) []byte {
	if beyond := len(n.frame); name.start >= beyond {
		return n.unescaped[name.start-beyond : name.end-beyond]
	}
	return n.frame[name.start:name.end]
}

// popDistinct removes the names above the mark and reports whether no two were equal.
func (n *nameStack) popDistinct(mark nameMark) bool {
	distinct, _ := n.distinct(n.names[mark.names:])
	n.names, n.unescaped = n.names[:mark.names], n.unescaped[:mark.unescaped]
	return distinct
}

// maxPairwise is the number of names up to which comparing all pairs is cheaper than hashing. The
// plain version hashes all names, which takes 4 % more instructions for a call with 200 small objects.
const maxPairwise = 8

// nameSeed keeps a peer from choosing names that all have the same hash.
var nameSeed = maphash.MakeSeed()

// distinct reports whether no two names are equal, and how many comparisons that took.
// Their number grows linearly with the number of names.
func (n *nameStack) distinct(names []span) (distinct bool, comparisons int) {
	if len(names) <= maxPairwise {
		return n.pairwise(names)
	}
	return n.hashed(names)
}

func (n *nameStack) pairwise(names []span) (distinct bool, comparisons int) {
	for i, a := range names {
		for _, b := range names[:i] {
			comparisons++
			if a.end-a.start == b.end-b.start && bytes.Equal(n.text(a), n.text(b)) {
				return false, comparisons
			}
		}
	}
	return true, comparisons
}

// hashed puts the positions of the names, counted from 1, into an open hash table that
// is at most half full. A position fits into 32 bits: a frame with more names has over 20 GiB.
func (n *nameStack) hashed(names []span) (distinct bool, comparisons int) {
	size := 1 << bits.Len(uint(2*len(names)-1))
	if cap(n.table) < size {
		n.table = make([]uint32, size)
	}
	table := n.table[:size]
	clear(table)
	for i, name := range names {
		text := n.text(name)
		slot := int(maphash.Bytes(nameSeed, text)) & (size - 1)
		for table[slot] != 0 {
			if comparisons++; bytes.Equal(text, n.text(names[table[slot]-1])) {
				return false, comparisons
			}
			slot = (slot + 1) & (size - 1)
		}
		table[slot] = uint32(i + 1)
	}
	return true, comparisons
}
