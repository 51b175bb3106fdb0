package jsonvalue

import (
	"encoding"
	"errors"
	"reflect"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// For returns what decodes the numbers of a text of so many bytes into a type: nil for json/v2 alone, [Numbers], or
// [NamedNumbers] for a costly text if the type has floats of other types.
func For(t reflect.Type, bytes int, costly bool) *json.Unmarshalers {
	switch {
	case costly && namedFloats(t):
		return NamedNumbers
	case costly || bytes > long:
		return Numbers
	}
	return nil
}

// long is how long a text is that takes less time with [Numbers].
const long = 4 << 10

// namedFloats reports whether a type has floats of other types than float64 and float32.
func namedFloats(t reflect.Type) bool {
	named, ok := namedIn.Load(t)
	if !ok {
		named = hasNamed(t, map[reflect.Type]bool{})
		namedIn.Store(t, named)
	}
	return named.(bool)
}

// namedIn remembers what namedFloats has returned. The program has a fixed number of types.
var namedIn sync.Map // reflect.Type to bool

// hasNamed is namedFloats for a type beside those that were seen.
func hasNamed(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Float32, reflect.Float64:
		return t.PkgPath() != ""
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return hasNamed(t.Elem(), seen)
	case reflect.Struct:
		for field := range t.Fields() {
			if hasNamed(field.Type, seen) {
				return true
			}
		}
	}
	return false
}

// NamedNumbers is [Numbers] for floats of other types as well, and lists of them. It is called for each value, which takes
// twice the time of json/v2, because a function for a type must know it when it is compiled.
var NamedNumbers = json.JoinUnmarshalers(Numbers, json.UnmarshalFromFunc(func(dec *jsontext.Decoder, into any) error {
	target := reflect.ValueOf(into).Elem()
	t := target.Type()
	switch {
	case isFloat(t) && !decodesItself(t):
		f, err := next(dec, t)
		if err == nil {
			target.SetFloat(f)
		}
		return err
	case t.Kind() == reflect.Slice && isFloat(t.Elem()) && !decodesItself(t) && !decodesItself(t.Elem()):
		var values reflect.Value
		at, bits := 0, t.Elem().Bits()
		err := eachNumber(dec, t.Elem(), func(count int) { values = reflect.MakeSlice(t, count, count) }, func(literal []byte) error {
			if literal == nil {
				at++
				return nil
			}
			f, err := Float(literal, bits)
			values.Index(at).SetFloat(f)
			at++
			return err
		})
		if err == nil {
			target.Set(values)
		}
		return err
	}
	return errors.ErrUnsupported
}))

// decodesItself reports whether json/v2 calls a method to decode a variable of the type.
func decodesItself(t reflect.Type) bool {
	t = reflect.PointerTo(t)
	return t.NumMethod() > 0 && (t.Implements(reflect.TypeFor[json.UnmarshalerFrom]()) || t.Implements(reflect.TypeFor[json.Unmarshaler]()) ||
		t.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()))
}

func isFloat(t reflect.Type) bool { return t.Kind() == reflect.Float32 || t.Kind() == reflect.Float64 }
