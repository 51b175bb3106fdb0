package schema

import (
	"bytes"
	"math"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/jsonvalue"
)

// A weighing adds up what decoding a text takes. It allocates nothing.
type weighing struct {
	text []byte
	at   int
	left int // bytes; negative once there are too many
}

// stop ends the weighing of a text that is not valid.
func (w *weighing) stop() { w.at = len(w.text) }

// more reports whether there is more to weigh.
func (w *weighing) more() bool {
	w.at = jsonvalue.SkipSpace(w.text, w.at)
	return w.at < len(w.text) && w.left >= 0
}

// value weighs a value beside its variable.
func (w *weighing) value(e *extent) {
	if !w.more() {
		return
	}
	first := w.text[w.at]
	if e.pointer && first != 'n' {
		w.left -= e.size
	}
	switch {
	case e.kind == anything && e.rate == anyRate:
		w.any()
	case e.kind == list && first == '[':
		around := e.elem.inList()
		if e.array {
			around = 0
		}
		if e.elem.rate == 0 && e.elem.fixed == 0 && !e.elem.pointer {
			w.left -= around * w.countItems()
			return
		}
		w.items(func() { w.left -= around; w.value(e.elem) })
	case e.kind == dict && first == '{':
		w.dict(e.elem)
	case e.kind == record && first == '{':
		w.record(e)
	default:
		from := w.at
		w.skip()
		w.scalar(e, w.text[from:w.at])
	}
}

// scalar weighs a text that is decoded as a whole.
func (w *weighing) scalar(e *extent, value []byte) {
	switch {
	case e.kind == anything:
		w.left -= 2 * len(value)
	case e.kind == instant && !bytes.HasSuffix(value, []byte(`Z"`)):
		w.left -= zoneSize
	case len(value) > 2 && value[0] == '"':
		w.left -= len(value) + 5 // allocations have sizes of 8 bytes at least
	}
}

// any weighs a value that becomes an any.
func (w *weighing) any() {
	switch w.text[w.at] {
	case '[':
		w.left -= 24
		w.at++
		for first := true; w.next(']', first); first = false { // without a func as in items: there may be a list for two bytes
			w.left -= int(growth * anySize)
			w.any()
		}
	case '{':
		w.dict(anyExtent)
	default:
		from := w.at
		w.skip()
		w.left -= 16 // a number, or the head of a string
		w.scalar(&extent{kind: scalar}, w.text[from:w.at])
	}
}

// dict weighs a map.
func (w *weighing) dict(elem *extent) {
	slot, count, tables := elem.inMap(), 0, 0
	small := elem.variable() <= anySize // all that package jsonvalue collects are
	w.left -= mapBytes
	w.membersOf(func(name []byte) {
		switch count++; {
		case count == 1:
			w.left -= (mapSlots + 1) * slot // allocations have certain sizes
		case count == mapSlots+1:
			w.left -= mapSlots * (int(growth*float64(slot)) - slot)
			fallthrough
		case count > mapSlots && (count <= longMap || !small):
			w.left -= int(growth * float64(slot))
		case count > longMap:
			if count%longMap == 1 {
				w.left -= inPages(longMap * (16 + elem.variable()))
			}
			for ; count > tables*tableFull; tables = max(1, 2*tables) {
				w.left -= max(1, tables) * inPages(mapTable*slot)
			}
		}
		w.left -= len(name) + 5
		w.value(elem)
	})
}

// record weighs a struct. Its defaults are filled in if members are missing.
func (w *weighing) record(e *extent) {
	w.left -= e.fixed
	w.membersOf(func(name []byte) {
		sub := e.field(name)
		if sub != nil {
			w.value(sub)
			return
		}
		from := w.at - len(name)
		w.skip()
		if e.open {
			w.left -= int(min(e.rate, math.MaxInt32) * float64(w.at-from))
		}
	})
}

// field returns the extent of the field with a quoted name, or nil.
func (e *extent) field(quoted []byte) *extent {
	name := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(name, '\\') < 0 {
		return e.fields[string(name)]
	}
	unquoted, err := jsontext.AppendUnquote(nil, quoted)
	if err != nil {
		return nil
	}
	return e.fields[string(unquoted)]
}

// countItems goes to the end of an array and returns how many items it has. It is for items that take no more than their variables,
// such as numbers and booleans, of which there may be the most in a text.
func (w *weighing) countItems() (count int) {
	for w.at++; w.at < len(w.text); {
		switch w.text[w.at] {
		case ']':
			w.at++
			return count
		case ',', ' ', '\t', '\r', '\n':
			w.at++
		default:
			count++
			w.skip()
		}
	}
	return count
}

// items reads an array, and calls item at each of its items.
func (w *weighing) items(item func()) {
	w.at++
	for first := true; w.next(']', first); first = false {
		item()
	}
}

// membersOf reads an object, and calls member at each value, with the quoted name.
func (w *weighing) membersOf(member func(name []byte)) {
	w.at++
	for first := true; w.next('}', first); first = false {
		end, ok := jsonvalue.SkipString(w.text, w.at)
		if !ok {
			w.stop()
			return
		}
		name := w.text[w.at:end]
		if w.at = end; !w.more() || w.text[w.at] != ':' {
			w.stop()
			return
		}
		if w.at++; !w.more() {
			return
		}
		member(name)
	}
}

// next goes to the next item or member, and reports whether there is one before the end.
func (w *weighing) next(end byte, first bool) bool {
	switch {
	case !w.more():
		return false
	case w.text[w.at] == end:
		w.at++
		return false
	case first:
		return true
	case w.text[w.at] == ',':
		w.at++
		return w.more()
	}
	w.stop()
	return false
}

// skip skips a value, with numbers of any size: they are only out of the bounds of texts that are validated.
func (w *weighing) skip() {
	end, ok := jsonvalue.SkipValue(w.text, w.at)
	if w.at = end; !ok {
		w.stop()
	}
}
