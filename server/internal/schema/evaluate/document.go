package evaluate

import (
	"errors"
	"hash/maphash"
	"math"
)

// maxNesting bounds the recursion over a value. It is the bound of jsontext.
const maxNesting = 10000

// ErrSyntax says that a text is not strict JSON, or that a number in it is out of bounds.
var ErrSyntax = errors.New("not strict JSON")

// An entry is one value, or the name of a member, of a document. An object has the entries of its
// names and values after it, in pairs, an array those of its items. An entry takes 12 bytes: a tree
// of Go values would need from 40 bytes (a number) to 400 (an object with one member) for each.
type entry struct {
	start uint32 // offset of the first byte
	// size is the offset after the last byte of a string, a number or a name, and the number of
	// members or items of an object or an array. For a string or a name with escapes it is an index
	// into document.escaped, with the bit hasEscapes.
	size uint32
	next uint32 // index of the entry after this one and all that is in it
}

// A document is the text of a JSON value and the places of all values in it. The value has index 0.
type document struct {
	raw     []byte
	entries []entry
	levels  int   // of arrays and objects
	names   names // kept for the next object
	escaped []escaped
	plain   []byte // the texts of all strings and names with escapes, resolved
}

// parse reads a text, and returns ErrSyntax if it is not strict JSON.
func (d *document) parse(raw []byte) error {
	d.raw, d.entries, d.levels, d.escaped, d.plain = raw, d.entries[:0], 0, d.escaped[:0], d.plain[:0]
	if len(raw) > math.MaxInt32 {
		return ErrSyntax
	}
	if n := len(raw)/2 + 2; n > cap(d.entries) {
		if n > maxIdleEntries {
			n = countEntries(raw)
		}
		d.entries = make([]entry, 0, n)
	}
	i := d.value(skipSpace(raw, 0), 0)
	if i < 0 || skipSpace(raw, i) != len(raw) {
		return ErrSyntax
	}
	return nil
}

// kind returns the type of a value.
func (d *document) kind(v uint32) kinds { return kindsOf[d.first(v)] }

// first returns the first byte of a value.
func (d *document) first(v uint32) byte { return d.raw[d.entries[v].start] }

// length returns the bytes that a value takes in the text, with what separates it from the next.
func (d *document) length(v uint32) int {
	next := d.entries[v].next
	if int(next) == len(d.entries) {
		return len(d.raw) - int(d.entries[v].start)
	}
	return int(d.entries[next].start - d.entries[v].start)
}

// value reads a value and returns the offset after it, or a negative number.
func (d *document) value(i, depth int) int {
	if i >= len(d.raw) {
		return -1
	}
	at := len(d.entries)
	d.entries = append(d.entries, entry{start: uint32(i)})
	var end int
	switch d.raw[i] {
	case '{', '[':
		if depth >= maxNesting {
			return -1
		}
		d.levels = max(d.levels, depth+1)
		if d.raw[i] == '{' {
			end = d.object(at, i, depth+1)
		} else {
			end = d.array(at, i, depth+1)
		}
		d.entries[at].next = uint32(len(d.entries))
		return end
	case '"':
		end, d.entries[at].size = d.string(i)
		d.entries[at].next = uint32(at + 1)
		return end
	case 't':
		end = skipLiteral(d.raw, i, "true")
	case 'f':
		end = skipLiteral(d.raw, i, "false")
	case 'n':
		end = skipLiteral(d.raw, i, "null")
	default:
		if end = skipNumber(d.raw, i); end-i >= len("1e513") && !NumberInBounds(d.raw[i:end]) {
			return -1
		}
	}
	if end >= 0 {
		d.entries[at].size, d.entries[at].next = uint32(end), uint32(at+1)
	}
	return end
}

func (d *document) array(at, i, depth int) int {
	if i = skipSpace(d.raw, i+1); i < len(d.raw) && d.raw[i] == ']' {
		return i + 1
	}
	for {
		if i = d.value(i, depth); i < 0 {
			return i
		}
		d.entries[at].size++
		if i = skipSpace(d.raw, i); i >= len(d.raw) {
			return -1
		}
		switch d.raw[i] {
		case ',':
			i = skipSpace(d.raw, i+1)
		case ']':
			return i + 1
		default:
			return -1
		}
	}
}

func (d *document) object(at, i, depth int) int {
	if i = skipSpace(d.raw, i+1); i < len(d.raw) && d.raw[i] == '}' {
		return i + 1
	}
	for {
		name := len(d.entries)
		end, size := d.string(i)
		if end < 0 {
			return -1
		}
		d.entries = append(d.entries, entry{uint32(i), size, uint32(name + 1)})
		if i = skipSpace(d.raw, end); i >= len(d.raw) || d.raw[i] != ':' {
			return -1
		}
		if i = d.value(skipSpace(d.raw, i+1), depth); i < 0 {
			return -1
		}
		d.entries[at].size++
		if i = skipSpace(d.raw, i); i >= len(d.raw) {
			return -1
		}
		switch d.raw[i] {
		case ',':
			i = skipSpace(d.raw, i+1)
		case '}':
			if !d.distinct(uint32(at), len(d.entries)) {
				return -1
			}
			return i + 1
		default:
			return -1
		}
	}
}

// nameSeed keeps a peer from choosing names that all have the same hash.
var nameSeed = maphash.MakeSeed()

// maxPairwise is the number of names up to which comparing all pairs is cheaper than hashing.
const maxPairwise = 8

// distinct reports whether no two members of an object have the same name. The entries of the object
// end at end.
func (d *document) distinct(object uint32, end int) bool {
	count := int(d.entries[object].size)
	if count <= maxPairwise {
		return d.distinctPairs(object, end)
	}
	d.names = newNames(d.names, count)
	return d.add(d.names, object, end)
}

func (d *document) distinctPairs(object uint32, end int) bool {
	for a := object + 1; int(a) < end; a = d.entries[a+1].next {
		if d.named(object, a, a) != 0 {
			return false
		}
	}
	return true
}

// named returns the entry of an object, before end, that has the same name as another entry, or 0.
func (d *document) named(object, end, name uint32) uint32 {
	for at := object + 1; at < end; at = d.entries[at+1].next {
		if d.sameText(at, name) {
			return at
		}
	}
	return 0
}

// names is an open hash table of the names of an object, by their entries.
type names []uint32

// newNames returns a table for so many names, in the memory of an old one if there is room.
func newNames(old names, count int) names {
	size := 2
	for size < 2*count {
		size *= 2
	}
	if cap(old) < size {
		return make(names, size)
	}
	clear(old[:size])
	return old[:size]
}

// slot returns the slot of a name, or that where it can be put.
func (d *document) slot(table names, name uint32) *uint32 {
	slot := int(maphash.Bytes(nameSeed, d.text(name))) & (len(table) - 1)
	for table[slot] != 0 && !d.sameText(name, table[slot]) {
		slot = (slot + 1) & (len(table) - 1)
	}
	return &table[slot]
}

// add puts all names of an object into a table, and reports whether they are different.
func (d *document) add(table names, object uint32, end int) bool {
	for at := object + 1; int(at) < end; at = d.entries[at+1].next {
		slot := d.slot(table, at)
		if *slot != 0 {
			return false
		}
		*slot = at
	}
	return true
}
