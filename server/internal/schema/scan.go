package schema

import (
	"bytes"
	"reflect"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/jsonvalue"
	"github.com/vitrine-mcp/vitrine/server/internal/schema/evaluate"
)

var rawType = reflect.TypeFor[jsontext.Value]()

// oddities are what a scan finds that the typed decoding needs help with.
type oddities struct {
	integers bool // there may be some such as 2.0, which json/v2 decodes only if they are completed
	hard     int  // numbers that strconv may need long for
}

// admits reads a JSON value and reports whether it satisfies those rules of the schema that
// typed decoding does not check: forbidden nulls (json/v2 turns them into zero values),
// required members, unknown members, and the bounds on numbers. It looks at the JSON type of each value as well,
// so that few values are decoded that are refused then. Its result is right for
// valid JSON with unique names. It is safe for any other text, which the typed decoding that
// follows does not accept, unless it is large: then package wire has not accepted it.
//
// The plain version is to validate each value. admits costs a tenth of that (BenchmarkDecode),
// because it looks at little more than the first byte of each value. It returns the index after the value.
func (s *shape) admits(b []byte, i int, seen *oddities) (int, bool) {
	i = jsonvalue.SkipSpace(b, i)
	if i >= len(b) {
		return i, false
	}
	switch {
	case s.kind == anything:
		end, ok := skipValue(b, i)
		if ok && s.typ != rawType {
			seen.hard += jsonvalue.CountHard(b[i:end])
		}
		return end, ok
	case b[i] == 'n':
		return i + len("null"), s.nullable
	case s.kind == list:
		return s.admitsMembers(b, i, '[', ']', seen)
	case s.kind == dict, s.kind == record:
		return s.admitsMembers(b, i, '{', '}', seen)
	}
	switch c := b[i]; {
	case c == '"':
		end, ok := jsonvalue.SkipString(b, i)
		return end, ok && s.isString()
	case s.kind == integer && (c == '-' || c >= '0' && c <= '9'):
		if end, ok := skipDigits(b, i); ok {
			return end, true
		}
		seen.integers = true
		end := jsonvalue.SkipWord(b, i)
		return end, evaluate.NumberInBounds(b[i:end])
	case s.kind == scalar && (c == '-' || c >= '0' && c <= '9'):
		end := jsonvalue.SkipWord(b, i)
		_, exponent, ok := evaluate.NumberExponent(b[i:end])
		if jsonvalue.Hard(end-i, exponent) {
			seen.hard++
		}
		return end, ok && s.typ.Kind() != reflect.Bool && s.typ.Kind() != reflect.String
	case s.kind == scalar && s.typ.Kind() == reflect.Bool:
		return jsonvalue.SkipWord(b, i), c == 't' || c == 'f'
	}
	return i, false
}

// isString reports whether values are strings in JSON.
func (s *shape) isString() bool {
	return s.kind == text || s.kind == instant || s.kind == scalar && s.typ.Kind() == reflect.String
}

// admitsMembers reads an array or an object, which begins with first and ends with last.
func (s *shape) admitsMembers(b []byte, i int, first, last byte, seen *oddities) (int, bool) {
	if b[i] != first {
		return i, false
	}
	i = jsonvalue.SkipSpace(b, i+1)
	if i < len(b) && b[i] == last {
		return i + 1, s.required == 0
	}
	required := 0 // counting is enough, because names are unique, or decoding fails
	for position := 0; ; position++ {
		member, ok := s.elem, false
		if first == '{' {
			i = jsonvalue.SkipSpace(b, i)
			end, ok := jsonvalue.SkipString(b, i)
			if !ok {
				return i, false
			}
			if s.kind == record {
				f := s.lookup(b[i:end], position)
				if f == nil {
					return i, false
				}
				if f.required {
					required++
				}
				member = f.shape
			}
			if i = jsonvalue.SkipSpace(b, end); i >= len(b) || b[i] != ':' {
				return i, false
			}
			i++
		}
		if i, ok = member.admits(b, i, seen); !ok {
			return i, false
		}
		if i = jsonvalue.SkipSpace(b, i); i >= len(b) {
			return i, false
		}
		switch b[i] {
		case ',':
			i++
		case last:
			return i + 1, required == s.required
		default:
			return i, false
		}
	}
}

// lookup finds the field with a quoted name. Members mostly come in the order
// of the schema, so the field at the same position is tried first.
func (s *shape) lookup(quoted []byte, position int) *field {
	name := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		unquoted, err := jsontext.AppendUnquote(nil, quoted)
		if err != nil {
			return nil
		}
		name = unquoted
	}
	if position < len(s.fields) && s.fields[position].name == string(name) {
		return s.fields[position]
	}
	return s.byName[string(name)]
}

// skipValue skips any value and checks the numbers in it.
func skipValue(b []byte, i int) (int, bool) {
	for depth := 0; ; {
		i = jsonvalue.SkipSpace(b, i)
		if i >= len(b) {
			return i, false
		}
		ok := true
		switch c := b[i]; c {
		case '[', '{':
			depth++
			i++
		case ']', '}':
			depth--
			i++
		case ',', ':':
			i++
		case '"':
			i, ok = jsonvalue.SkipString(b, i)
		default:
			end := jsonvalue.SkipWord(b, i)
			ok = end > i && (c != '-' && (c < '0' || c > '9') || evaluate.NumberInBounds(b[i:end]))
			i = end
		}
		if !ok || depth <= 0 {
			return i, ok
		}
	}
}

// skipDigits skips an integer that has neither a fraction nor an exponent.
func skipDigits(b []byte, i int) (int, bool) {
	if b[i] == '-' {
		i++
	}
	first := i
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		i++
	}
	return i, i > first && (i == len(b) || b[i] != '.' && b[i]|0x20 != 'e')
}
