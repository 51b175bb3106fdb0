package evaluate

import (
	"bytes"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// hasEscapes is a bit of the size of an entry. A text of a document is shorter.
const hasEscapes = 1 << 31

// An escaped is a string or a name with escapes. Its text is kept, because schemas can ask for it often.
type escaped struct {
	end   uint32 // offset after the last byte
	plain uint32 // offset after its text, in document.plain
}

// literal returns a string with its quotes, or a number.
func (d *document) literal(v uint32) []byte {
	e := d.entries[v]
	if e.size&hasEscapes != 0 {
		return d.raw[e.start:d.escaped[e.size&^hasEscapes].end]
	}
	return d.raw[e.start:e.size]
}

// text returns the text of a string or a name, with its escapes resolved.
func (d *document) text(v uint32) []byte {
	e := d.entries[v]
	if e.size&hasEscapes == 0 {
		return d.raw[e.start+1 : e.size-1]
	}
	from, i := uint32(0), e.size&^hasEscapes
	if i > 0 {
		from = d.escaped[i-1].plain
	}
	return d.plain[from:d.escaped[i].plain]
}

// sameText reports whether two strings have the same text.
func (d *document) sameText(a, b uint32) bool { return bytes.Equal(d.text(a), d.text(b)) }

// string reads a string. It returns the offset after it, or a negative number, and the size of its entry.
func (d *document) string(i int) (end int, size uint32) {
	if i >= len(d.raw) || d.raw[i] != '"' {
		return -1, 0
	}
	rest, plain := d.raw[i+1:], true
	for n, c := range rest {
		switch {
		case c == '"' && plain:
			return i + n + 2, uint32(i + n + 2)
		case c == '"':
			return d.unusualString(i)
		case c < ' ':
			return -1, 0
		case c == '\\':
			return d.unusualString(i)
		case c >= utf8.RuneSelf:
			plain = false
		}
	}
	return -1, 0
}

// unusualString reads a string with escapes or characters outside of ASCII.
func (d *document) unusualString(i int) (end int, size uint32) {
	last := i + 1
	for ; last < len(d.raw) && d.raw[last] != '"'; last++ {
		if d.raw[last] == '\\' {
			last++
		}
	}
	if last >= len(d.raw) {
		return -1, 0
	}
	quoted := d.raw[i : last+1]
	if bytes.IndexByte(quoted, '\\') < 0 {
		if !utf8.Valid(quoted) || hasControl(quoted) {
			return -1, 0
		}
		return last + 1, uint32(last + 1)
	}
	return d.unescape(i, last+1)
}

// unescape keeps the text of a string with escapes, which has the offsets from and to.
func (d *document) unescape(from, to int) (end int, size uint32) {
	rest := len(d.raw) - from // a text has no more bytes than what it is written as
	d.plain = roomFor(d.plain, to-from, rest)
	var err error
	if d.plain, err = jsontext.AppendUnquote(d.plain, d.raw[from:to]); err != nil {
		return -1, 0
	}
	d.escaped = append(roomFor(d.escaped, 1, rest/shortestEscaped+1), escaped{uint32(to), uint32(len(d.plain))})
	return to, hasEscapes | uint32(len(d.escaped)-1)
}

// shortestEscaped is the least that an item with an escape takes.
const shortestEscaped = len(`"\n",`)

// roomFor returns a list with room for so many more items, of which there will be no more than most. It doubles
// a list that is too short: append adds only a quarter to a long one, and would copy it often.
func roomFor[T any](list []T, more, most int) []T {
	if cap(list)-len(list) >= more {
		return list
	}
	return append(make([]T, 0, len(list)+min(max(len(list), more), most)), list...)
}

func hasControl(text []byte) bool {
	for _, c := range text {
		if c < ' ' {
			return true
		}
	}
	return false
}
