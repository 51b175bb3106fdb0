package schema

import (
	"bytes"
	"reflect"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/jsonvalue"
)

// completed returns a value as it is decoded: with the defaults of the members that are
// missing, and with 2 for 2.0 and 2e0 wherever the shape has an integer. JSON Schema says
// that these are integers; json/v2 does not decode them into one. Everything else stays as
// it is, and so does what follows one such as 1e30, which no integer type holds, because decoding ends there. A value that needs
// nothing is not copied. Lists and maps of the types for which whole, which may be nil, returns true are not looked at: what decodes
// them takes integers in any notation. It returns false, and the value as it is, if that cannot be read or, in what it looks at, has a
// number that is no integer where the shape has one, before one such as 1e30.
func (s *shape) completed(raw jsontext.Value, whole func(reflect.Type) bool) (jsontext.Value, bool) {
	c := completion{text: raw, whole: whole}
	switch {
	case !c.value(s) && !c.refused:
		return raw, false
	case c.out == nil:
		return raw, true
	}
	return append(c.out, raw[c.copied:]...), true
}

// A completion copies one value as far as it changes it.
type completion struct {
	text   []byte
	at     int    // offset of what is read next
	out    []byte // the text up to copied, as it is decoded; nil if it is the same
	copied int
	// whole reports whether the lists or maps of a type stay as they are.
	whole func(reflect.Type) bool
	// refused is true once [tooLarge] was written.
	refused bool
}

// copy copies what comes before the place that is changed.
func (c *completion) copy() {
	switch more := c.at - c.copied + len(tooLarge); {
	case c.out == nil:
		c.out = make([]byte, 0, len(c.text)+len(c.text)/8+more)
	case len(c.out)+more > cap(c.out):
		c.out = slices.Grow(c.out, cap(c.out)) // append would copy a large text many times
	}
	c.out = append(c.out, c.text[c.copied:c.at]...)
	c.copied = c.at
}

// next skips white space and returns the next byte, or 0 at the end.
func (c *completion) next() byte {
	if c.at = jsonvalue.SkipSpace(c.text, c.at); c.at == len(c.text) {
		return 0
	}
	return c.text[c.at]
}

// value reads a value, and reports whether it could be read.
func (c *completion) value(s *shape) bool {
	first := c.next()
	if first == '{' && (s.kind == record || s.kind == dict) || first == '[' && s.kind == list {
		if s.kind != record && c.whole != nil && c.whole(s.typ) {
			c.at, _ = jsonvalue.SkipValue(c.text, c.at)
			return true
		}
		return c.members(s)
	}
	if s.kind == integer && (first == '-' || first >= '0' && first <= '9') {
		return c.integer()
	}
	end, ok := jsonvalue.SkipValue(c.text, c.at) // admits or Validate has checked its numbers
	c.at = end
	return ok
}

// integer reads a number, and reports whether it is an integer that a type of Go may hold. One without fraction and exponent stays as
// it is.
func (c *completion) integer() (ok bool) {
	if end, ok := skipDigits(c.text, c.at); ok {
		c.at = end
		return true
	}
	c.copy()
	end, before := jsonvalue.SkipWord(c.text, c.at), len(c.out)
	if c.out, ok = appendInteger(c.out, c.text[c.at:end]); !ok {
		return false
	}
	c.at, c.copied = end, end
	c.refused = len(c.out)-before >= len(tooLarge) && bytes.HasSuffix(c.out, []byte(tooLarge))
	return !c.refused
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
	end, ok := jsonvalue.SkipString(c.text, c.at)
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
		c.copy()
		if !empty {
			c.out = append(c.out, ',')
		}
		c.out, _ = jsontext.AppendQuote(c.out, f.name) // a field has a valid name
		c.out = append(append(c.out, ':'), f.preset...)
		empty = false
	}
}
