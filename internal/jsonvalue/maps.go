package jsonvalue

import (
	"errors"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// stringMaps decodes maps from strings in half the time that json/v2 needs (BenchmarkMaps): 4 MiB may have 400,000 short members.
var stringMaps = json.JoinUnmarshalers(
	mapsOf(func(text []byte) (string, error) {
		if text[0] != '"' {
			return "", errOtherType
		}
		return string(Unquote(text)), nil
	}),
	mapsOf(func(text []byte) (float64, error) {
		if !inNumber[text[0]] {
			return 0, errOtherType
		}
		return Float(text, 64)
	}),
	MapsOfAny[map[string]any](),
)

// MapsOfAny decodes maps of values of type any, which [Any] decodes.
func MapsOfAny[M ~map[string]any]() *json.Unmarshalers {
	return json.UnmarshalFromFunc(func(dec *jsontext.Decoder, into *M) error {
		if *into != nil || !unlooked(dec) {
			return errors.ErrUnsupported
		}
		var value any
		err := json.UnmarshalDecode(dec, &value)
		*into, _ = value.(map[string]any)
		return err
	})
}

// unlooked reports whether an object comes next whose names may be there twice. Otherwise json/v2 decodes it faster: it finds such a name
// while it fills the map, and a decoder that reads a value remembers all names for that.
func unlooked(dec *jsontext.Decoder) bool {
	twice, _ := json.GetOption(dec.Options(), jsontext.AllowDuplicateNames)
	return twice && dec.PeekKind() == '{'
}

// errOtherType is the error of a value of another JSON type. It is not told.
var errOtherType = errors.New("another type")

// mapsOf decodes a map whose values are read by a function, which is not called for null.
func mapsOf[V any](read func(text []byte) (V, error)) *json.Unmarshalers {
	return json.UnmarshalFromFunc(func(dec *jsontext.Decoder, into *map[string]V) error {
		if inString, _ := json.GetOption(dec.Options(), json.StringifyNumbers); inString || *into != nil || !unlooked(dec) {
			return errors.ErrUnsupported
		}
		object, err := dec.ReadValue()
		if err != nil {
			return err
		}
		var long memberParts[V]
		all := make(map[string]V, countMembers(object, longObject)) // one of a hundred that grows takes a third longer, and twice the memory
		members := membersOf(object)
		for quoted, text, ok := members.next(); ok; quoted, text, ok = members.next() {
			var value V
			if text[0] != 'n' {
				if value, err = read(text); err != nil {
					return memberError(dec, quoted, text, reflect.TypeFor[V](), err)
				}
			}
			if name := string(Unquote(quoted)); len(all) < longObject {
				all[name] = value
			} else {
				long.add(name, value)
			}
		}
		if long.count > 0 {
			all = long.with(all)
		}
		*into = all
		return nil
	})
}

// memberError says which member cannot be decoded, as json/v2 does.
func memberError(dec *jsontext.Decoder, quoted, text []byte, t reflect.Type, err error) error {
	if err == errOtherType {
		err = nil
	}
	return &json.SemanticError{
		JSONPointer: dec.StackPointer().AppendToken(string(Unquote(quoted))), JSONKind: jsontext.Value(text).Kind(), GoType: t, Err: err,
	}
}
