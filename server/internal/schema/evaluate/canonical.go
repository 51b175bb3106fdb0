package evaluate

import (
	"bytes"
	"encoding/binary"
	"encoding/json" // for Number, which is how the compiler has numbers
	"hash/maphash"
	"maps"
	"math"
	"math/bits"
	"slices"
	"sort"
)

// The canonical text of a value is the same for equal values and for no others: 1 and 1.0 are equal,
// and so are objects whose members have another order. A string and a name have their length before
// them, so that the texts of two values cannot run together.

func appendText[T string | []byte](to []byte, text T) []byte {
	to = append(to, '"')
	to = binary.AppendUvarint(to, uint64(len(text)))
	return append(to, text...)
}

// canonicalOf returns the canonical text of a value of a schema.
func canonicalOf(to []byte, value any) []byte {
	switch v := value.(type) {
	case nil:
		return append(to, 'n')
	case bool:
		if v {
			return append(to, 't')
		}
		return append(to, 'f')
	case string:
		return appendText(to, v)
	case json.Number:
		d, _ := parseDecimal([]byte(v), nil)
		return d.appendTo(append(to, '0'))
	case []any:
		to = append(to, '[')
		for _, item := range v {
			to = canonicalOf(to, item)
		}
		return append(to, ']')
	case map[string]any:
		to = append(to, '{')
		for _, name := range slices.Sorted(maps.Keys(v)) {
			to = canonicalOf(appendText(to, name), v[name])
		}
		return append(to, '}')
	}
	return append(to, '?') // the compiler has no other values
}

// canonical appends the canonical text of a value of the document. A text that is longer than
// r.longest may be cut.
func (r *run) canonical(to []byte, v uint32) []byte {
	r.charge(1 + r.doc.length(v)/bytesPerStep)
	e := r.doc.entries[v]
	switch r.doc.kind(v) {
	case stringKind:
		return appendText(to, r.doc.text(v))
	case numberKind:
		return r.decimal(v).appendTo(append(to, '0'))
	case arrayKind:
		to = append(to, '[')
		for item := v + 1; item < e.next && r.err == nil && len(to) <= r.longest; item = r.doc.entries[item].next {
			to = r.canonical(to, item)
		}
		return append(to, ']')
	case objectKind:
		to = append(to, '{')
		if int(e.size) > r.longest {
			return append(to, '!') // not in any canonical text
		}
		for _, name := range r.sortedNames(v) {
			if r.err != nil || len(to) > r.longest {
				break
			}
			to = r.canonical(appendText(to, name.text), name.entry+1)
		}
		return append(to, '}')
	default:
		return append(to, r.doc.first(v))
	}
}

// A memberName is the name of a member with its text.
type memberName struct {
	entry uint32
	text  []byte
}

// memberNames sorts names by their texts.
type memberNames []memberName

func (n memberNames) Len() int           { return len(n) }
func (n memberNames) Less(i, j int) bool { return bytes.Compare(n[i].text, n[j].text) < 0 }
func (n memberNames) Swap(i, j int)      { n[i], n[j] = n[j], n[i] }

// sortedNames returns the names of an object in the order of their texts.
func (r *run) sortedNames(v uint32) memberNames {
	e := r.doc.entries[v]
	names := make(memberNames, 0, e.size)
	for name := v + 1; name < e.next; name = r.doc.entries[name+1].next {
		names = append(names, memberName{name, r.doc.text(name)})
	}
	r.charge(len(names) * bits.Len(uint(len(names))))
	sort.Sort(names)
	return names
}

// valueSeed keeps a peer from choosing values that all have the same hash.
var valueSeed = maphash.MakeSeed()

// hash returns the same number for equal values.
func (r *run) hash(v uint32) uint64 {
	r.charge(stepsPerHash + r.doc.length(v)/bytesPerStep)
	e := r.doc.entries[v]
	switch r.doc.kind(v) {
	case stringKind:
		return maphash.Bytes(valueSeed, r.doc.text(v))
	case numberKind:
		return r.hashNumber(v)
	case arrayKind:
		sum := uint64(arrayKind)
		for item := v + 1; item < e.next && r.err == nil; item = r.doc.entries[item].next {
			sum = mix(sum, r.hash(item))
		}
		return mix(sum, uint64(e.size))
	case objectKind:
		sum := uint64(objectKind) // of all members, because their order does not count
		for name := v + 1; name < e.next && r.err == nil; name = r.doc.entries[name+1].next {
			sum += mix(r.hash(name), r.hash(name+1))
		}
		return mix(sum, uint64(e.size))
	default:
		return mix(uint64(r.doc.first(v)), 0)
	}
}

// hashNumber returns the same number for equal numbers. Most numbers are small integers, which need not
// become a canonical text.
func (r *run) hashNumber(v uint32) uint64 {
	small, ok := smallInteger(r.doc.literal(v))
	if ok {
		return mix(uint64(small), uint64(numberKind))
	}
	d := r.decimal(v)
	if small, ok = d.small(); ok {
		return mix(uint64(small), uint64(numberKind))
	}
	r.buffer = d.appendTo(append(r.buffer[:0], '0'))
	return maphash.Bytes(valueSeed, r.buffer)
}

// mix hashes two hashes.
func mix(a, b uint64) uint64 {
	var both [16]byte
	binary.LittleEndian.PutUint64(both[:8], a)
	binary.LittleEndian.PutUint64(both[8:], b)
	return maphash.Bytes(valueSeed, both[:])
}

// decimal returns a number. It is valid until the next call.
func (r *run) decimal(v uint32) (d decimal) {
	literal := r.doc.literal(v)
	r.charge(stepsPerRead + len(literal)/bytesPerStep)
	d, r.digits = parseDecimal(literal, r.digits)
	return d
}

// A set has the values of enum or const.
type set struct {
	values  []any
	kinds   kinds
	texts   map[string]struct{} // canonical
	size    int                 // bytes of the longest text
	numbers map[string]bool     // as the schema writes them
}

func setOf(values ...any) *set {
	s := &set{values: values, texts: make(map[string]struct{}, len(values)), numbers: map[string]bool{}}
	for _, value := range values {
		text := string(canonicalOf(nil, value))
		s.kinds |= kindsOf[text[0]]
		s.size = max(s.size, len(text))
		s.texts[text] = struct{}{}
		if number, ok := value.(json.Number); ok {
			s.numbers[string(number)] = true
		}
	}
	return s
}

// has reports whether a value of the document is in the set.
func (r *run) has(s *set, v uint32) bool {
	is := r.doc.kind(v)
	if s.kinds&is == 0 {
		return false
	}
	if is == numberKind {
		literal := r.doc.literal(v)
		r.charge(1 + len(literal)/bytesPerStep)
		if s.numbers[string(literal)] {
			return true
		}
	}
	r.longest = s.size
	r.buffer = r.canonical(r.buffer[:0], v)
	r.longest = math.MaxInt
	_, ok := s.texts[string(r.buffer)]
	return ok
}
