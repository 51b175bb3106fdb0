package jsonvalue

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Any decodes variables of type any. The plain version is to leave them to json/v2, which takes 3 times as long beside [jsontext.AllowDuplicateNames] (BenchmarkDecodeAny): a text of many small
// values costs more than any other of its size.
var Any = json.UnmarshalFromFunc(func(dec *jsontext.Decoder, into *any) error {
	if *into != nil {
		return errors.ErrUnsupported // a value of the program, which is decoded into
	}
	raw, err := dec.ReadValue()
	if err != nil {
		return err
	}
	t := anyText{text: raw}
	value, err := t.value()
	if err != nil {
		return &json.SemanticError{
			JSONPointer: dec.StackPointer() + t.pointer, JSONKind: '0', JSONValue: bytes.Clone(t.number),
			GoType: reflect.TypeFor[float64](), Err: err,
		}
	}
	*into = value
	return nil
})

// An anyText is a valid JSON text, which becomes a Go value as json/v2 decodes one into an any: nil, bool, float64, string, []any
// and map[string]any.
type anyText struct {
	text []byte
	at   int
	// number is what no float64 holds, and pointer where that is.
	number  []byte
	pointer jsontext.Pointer
	// unquoted is the last string that had escapes.
	unquoted []byte
	// singles is room for more lists of one item.
	singles []any
	made    int // for how many of them there was room when it was made
}

// These values, of which there are most in a text of so many bytes, need no memory of their own.
var (
	emptyList any = []any{}
	digits        = [10]any{0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0}
)

// value reads a value, which begins here.
func (t *anyText) value() (any, error) {
	switch t.text[t.at] {
	case '[':
		return t.list()
	case '{':
		return t.object()
	case '"':
		return t.string(), nil
	case 't':
		t.at += len("true")
		return true, nil
	case 'f':
		t.at += len("false")
		return false, nil
	case 'n':
		t.at += len("null")
		return nil, nil
	}
	from := t.at
	t.at = SkipWord(t.text, from)
	if t.at-from == 1 {
		return digits[t.text[from]-'0'], nil
	}
	f, err := Float(t.text[from:t.at], 64)
	if err != nil {
		t.number = t.text[from:t.at]
		return nil, err
	}
	return f, nil
}

// more goes on after the beginning of a list or object, or a comma in it, and reports whether an item follows.
func (t *anyText) more(last byte) bool {
	if t.at = SkipSpace(t.text, t.at+1); t.text[t.at] != last {
		return true
	}
	t.at++
	return false
}

// ends goes on after an item, and reports whether it was the last one.
func (t *anyText) ends(last byte) bool {
	if t.at = SkipSpace(t.text, t.at); t.text[t.at] != last {
		return false
	}
	t.at++
	return true
}

func (t *anyText) list() (any, error) {
	from := t.at
	if !t.more(']') {
		return emptyList, nil
	}
	var full [][]any
	var part []any
	for count := 0; ; t.at = SkipSpace(t.text, t.at+1) {
		if len(part) == cap(part) && count >= longList {
			full = append(full, part)
			part = make([]any, 0, longList/4)
		}
		value, err := t.value()
		if err != nil {
			t.pointer = jsontext.Pointer("/"+strconv.Itoa(count)) + t.pointer
			return nil, err
		}
		ends := t.ends(']')
		if ends && count == 0 {
			return t.single(value, t.at-from), nil
		}
		count++
		if part = append(part, value); !ends {
			continue
		}
		if full == nil {
			return part, nil
		}
		return slices.Concat(append(full, part)...), nil
	}
}

// single returns a list of one item whose text has so many bytes. A text has the most lists if each of them has one item. If each were
// allocated, that would take a quarter of the time of a text of nested lists. So short ones share an array. A program that keeps one of
// them keeps the others of its array, which are the values of 4 KB of text at most.
func (t *anyText) single(item any, bytes int) []any {
	const most, short = 15, 256
	if bytes > short {
		return []any{item}
	}
	if len(t.singles) == 0 {
		t.made = min(2*t.made+1, most)
		t.singles = make([]any, t.made)
	}
	one := t.singles[:1:1]
	one[0], t.singles = item, t.singles[1:]
	return one
}

// longList is how many items a list has at least that goes on in parts, which are put together once. If all of it grew, it would be
// copied five times.
const longList = 1 << 12

func (t *anyText) object() (any, error) {
	all := map[string]any{}
	var rest memberParts[any]
	for t.more('}') {
		name := t.string()
		t.at = SkipSpace(t.text, t.at) + len(":")
		t.at = SkipSpace(t.text, t.at)
		value, err := t.value()
		if err != nil {
			t.pointer = jsontext.Pointer("").AppendToken(name) + t.pointer
			return nil, err
		}
		if len(all) < longObject {
			all[name] = value
		} else {
			rest.add(name, value)
		}
		if t.ends('}') {
			break
		}
	}
	if rest.count == 0 {
		return all, nil
	}
	return rest.with(all), nil
}

// longObject is how many members an object has at least of which the others are collected, so that its map is made with the right size
// and need not grow.
const longObject = 1 << 10

// string reads a string.
func (t *anyText) string() string {
	from := t.at
	t.at, _ = SkipString(t.text, from)
	quoted := t.text[from:t.at]
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	t.unquoted, _ = jsontext.AppendUnquote(t.unquoted[:0], quoted)
	return string(t.unquoted)
}
