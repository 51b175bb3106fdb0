package schema

import (
	"math"
	"reflect"
	"slices"
	"sync"
)

// An extent says what memory the values of a Go type take that are decoded from JSON, beside the
// variable itself: 3 bytes of text, "{},", can become an element of a slice of any size.
type extent struct {
	kind    shapeKind
	size    int     // of the variable, or of what the pointer points to
	pointer bool    // what it points to is allocated
	array   bool    // the elements are a part of the variable
	fixed   int     // of one record: embedded structs and defaults
	rate    float64 // bytes for each byte of text, at most; infinite for recursive types
	elem    *extent // of a list or a dict
	fields  map[string]*extent
	open    bool // members of other names can be decoded, too
}

// What decoding takes, in bytes. All are upper bounds of what json/v2 and the runtime do.
const (
	growth   = 2.5 // elements grow by copying: the old ones, the new ones and room for more
	mapBytes = 48  // of an empty map
	mapSlots = 8   // of the smallest map that is not empty
	// The members of a long map of small values that follow the first ones are collected, so many at a time, before they are put into a map
	// with room for all. It has a power of two of tables, each of so many slots. Before they are full the first of them overflow.
	longMap   = 1 << 10
	mapTable  = 1 << 10
	tableFull = mapTable * 7 / 8 * 8 / 9
	nameSize  = 17  // of a name in a map, with its control byte
	anySize   = 16  // of an interface
	zoneSize  = 176 // of the zone of an instant
	// anyRate is the most that a byte of text can take as an any: objects of one short member.
	anyRate = 96
)

// inPages is what so many bytes take at most if they are allocated at once.
func inPages(bytes int) int {
	const page, header = 8 << 10, 8
	return (bytes + header + page - 1) / page * page
}

var anyExtent = &extent{kind: anything, size: anySize, rate: anyRate}

// extents remembers the extents of types. The program has a fixed number of them.
var extents sync.Map // reflect.Type to *extent

// extentOf returns the extent of a type.
func extentOf(t reflect.Type) *extent {
	if known, ok := extents.Load(t); ok {
		return known.(*extent)
	}
	e := measured(t, map[reflect.Type]*extent{})
	extents.Store(t, e)
	return e
}

// measured returns the extent of a type. seen has the types around it.
func measured(t reflect.Type, seen map[reflect.Type]*extent) *extent {
	if known := seen[t]; known != nil {
		return known
	}
	e := &extent{pointer: t.Kind() == reflect.Pointer, rate: math.Inf(1)}
	seen[t] = e
	base := deref(t)
	e.kind, e.size = shapeKindOf(base), int(base.Size())
	if e.pointer {
		e.size = heapSize(base)
		for to := t.Elem(); to != base; to = to.Elem() {
			e.size += 8 // of a pointer to a pointer
		}
	}
	if e.kind < list {
		e.rate = 0
	}
	switch e.kind {
	case anything:
		e.rate = 2 // a copy of the text
		if base.Kind() == reflect.Interface {
			e.rate = anyRate
		}
	case instant:
		e.rate = zoneSize / 20.
	case scalar, text:
		if goKinds(base) == stringKind {
			e.rate = 3 // of a short text
		}
	case list:
		e.array = base.Kind() == reflect.Array
		e.elem = measured(base.Elem(), seen)
		e.rate = e.elem.perByte(e.elem.inList(), 2)
	case dict:
		e.elem = measured(base.Elem(), seen)
		e.rate = e.elem.perByte(mapBytes+(mapSlots+1)*e.elem.inMap(), 5) + 8
	case record:
		e.members(base, seen)
	}
	return e
}

// members measures the fields of a struct.
func (e *extent) members(t reflect.Type, seen map[reflect.Type]*extent) {
	fields, open, err := structFields(t)
	if err != nil {
		e.rate = 0 // it cannot be decoded
		return
	}
	e.fields, e.open = map[string]*extent{}, open
	rate := 0.
	if open {
		rate = anyRate
	}
	for _, f := range fields {
		sub := measured(f.typ, seen)
		e.fields[f.name], e.open = sub, e.open || f.anyCase
		rate = max(rate, sub.perByte(0, f.shortest()+4))
	}
	eachField(t, nil, func(sf reflect.StructField) {
		if preset := sf.Tag.Get("default"); preset != "" {
			e.fixed += 4 * (len(sf.Name) + len(sf.Tag.Get("json")) + len(preset) + 8) // the completed text grows, and is decoded
		}
		base := deref(sf.Type)
		switch {
		case !embeds(sf):
		case base.Kind() == reflect.Struct && sf.Type.Kind() == reflect.Pointer:
			e.fixed += heapSize(base)
		case base.Kind() == reflect.Map: // it takes the members of all other names
			rate = max(rate, measured(base, seen).rate)
		}
	})
	e.rate = rate
}

// heapSize returns what a variable of the type takes at most if it is allocated: allocations have certain sizes, and large ones a word
// more for the collector.
func heapSize(t reflect.Type) int {
	const largeBytes = 512
	size := int(t.Size())
	if size > largeBytes {
		size += 8
	}
	return cap(slices.Grow([]byte(nil), size))
}

// variable returns the size of a variable of the type.
func (e *extent) variable() int {
	if e.pointer {
		return 8
	}
	return e.size
}

// inList returns what a variable takes as the element of a slice.
func (e *extent) inList() int { return int(growth * float64(e.variable())) }

// inMap returns the size of a slot of a map whose element is such a variable. A slot begins at a multiple of 8.
func (e *extent) inMap() int { return nameSize + (e.variable()+7)&^7 }

// perByte returns the most that a byte of text takes if a value of so many bytes of text at least
// needs more memory around it.
func (e *extent) perByte(around, text int) float64 {
	if e.pointer {
		around += e.size
	}
	return float64(around+e.fixed)/float64(text) + e.rate
}

// Fits reports whether a value of type T takes no more than so many bytes if a text is decoded into it, as far as the text is
// valid.
func Fits[T any](text []byte, most int) bool {
	return extentOf(reflect.TypeFor[T]()).within(text, most)
}

// within reports whether decoding a text into a variable of the type takes no more than so many bytes.
func (e *extent) within(text []byte, most int) bool {
	_, fits := e.weighed(text, most, roughly)
	return fits
}

// Weights in bytes up to which the length of a text is enough to tell them.
const (
	roughly = 32 << 10
	exactly = 4 << 10 // nobody is charged for that
)

// weigh returns how many bytes decoding a text takes at most, with the variable of the type, and whether that is no more than most.
func (e *extent) weigh(text []byte, most, roughly int) (bytes int, fits bool) {
	bytes, fits = e.weighed(text, most-e.variable(), roughly)
	return bytes + e.variable(), fits
}

// weighed is weigh without the variable. Of a text that is not valid it counts what comes before the first error.
func (e *extent) weighed(text []byte, most, roughly int) (bytes int, fits bool) {
	if rough := e.rate*float64(len(text)) + float64(e.fixed+e.size); rough <= float64(min(most, roughly)) {
		return int(rough), true
	}
	w := weighing{text: text, left: most}
	w.value(e)
	return most - w.left, w.left >= 0
}
