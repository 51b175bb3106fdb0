package schema

import (
	"bytes"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// completed returns a value as it is decoded: with the defaults of the members that are
// missing, and with 2 for 2.0 and 2e0 wherever the shape has an integer. JSON Schema says
// that these are integers; json/v2 does not decode them into one. Everything else stays as
// it is, and so does the whole value if it cannot be read. A value that needs nothing is not
// copied, and one with a number that is no integer where the shape has one stays as it is.
func (s *shape) completed(raw jsontext.Value) jsontext.Value {
	c := completion{text: raw}
	if !c.value(s) || c.out == nil {
		return raw
	}
	return append(c.out, raw[c.copied:]...)
}

// A completion copies one value as far as it changes it.
type completion struct {
	text   []byte
	at     int    // offset of what is read next
	out    []byte // the text up to copied, as it is decoded; nil if it is the same
	copied int
}

// replace puts another text in the place of what comes next, up to an offset.
func (c *completion) replace(end int, with []byte) {
	if c.out == nil {
		c.out = make([]byte, 0, len(c.text)+len(with))
	}
	c.out = append(append(c.out, c.text[c.copied:c.at]...), with...)
	c.at, c.copied = end, end
}

// next skips white space and returns the next byte, or 0 at the end.
func (c *completion) next() byte {
	if c.at = skipSpace(c.text, c.at); c.at == len(c.text) {
		return 0
	}
	return c.text[c.at]
}

// value reads a value, and reports whether it could be read.
func (c *completion) value(s *shape) bool {
	first := c.next()
	if first == '{' && (s.kind == record || s.kind == dict) || first == '[' && s.kind == list {
		return c.members(s)
	}
	end, ok := skipValue(c.text, c.at)
	if !ok {
		return false
	}
	value := c.text[c.at:end]
	if s.kind == integer && (first == '-' || first >= '0' && first <= '9') && bytes.ContainsAny(value, ".eE") {
		text, ok := integerText(value)
		if !ok {
			return false // the value is refused for it, so the rest needs nothing
		}
		c.replace(end, text)
	}
	c.at = end
	return true
}

// members reads an object or an array.
func (c *completion) members(s *shape) bool {
	var given []*field // with a default
	empty := true
	c.at++
	for {
		switch c.next() {
		case 0:
			return false
		case '}', ']':
			c.presets(s, given, empty)
			c.at++
			return true
		case ',':
			c.at++
			continue
		}
		empty = false
		member := s.elem
		if s.kind != list {
			f, ok := c.name(s)
			switch {
			case !ok:
				return false
			case f != nil:
				member = f.shape
			case s.kind == record: // a form may have been given more than it asks for
				member = &anyShape
			}
			if f != nil && f.preset != nil {
				given = append(given, f)
			}
		}
		if !c.value(member) {
			return false
		}
	}
}

var anyShape = shape{kind: anything}

// name reads the name of a member and what separates it from its value. It returns the field, if it is
// of one, and whether the name could be read.
func (c *completion) name(s *shape) (f *field, ok bool) {
	end, ok := skipString(c.text, c.at)
	if !ok {
		return nil, false
	}
	name := c.text[c.at+1 : end-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		name, _ = jsontext.AppendUnquote(nil, c.text[c.at:end])
	}
	if c.at = end; c.next() != ':' {
		return nil, false
	}
	c.at++
	return s.byName[string(name)], true
}

// presets adds the defaults of the members that are not given, at the end of an object.
func (c *completion) presets(s *shape, given []*field, empty bool) {
	for _, f := range s.fields {
		if f.preset == nil || slices.Contains(given, f) {
			continue
		}
		var with []byte
		if !empty {
			with = append(with, ',')
		}
		with, _ = jsontext.AppendQuote(with, f.name) // a field has a valid name
		c.replace(c.at, append(append(with, ':'), f.preset...))
		empty = false
	}
}
