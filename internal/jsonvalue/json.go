package jsonvalue

import (
	"errors"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Unmarshal is [json.Unmarshal] in a time that goes with the length of the text.
func Unmarshal(text []byte, into any, options ...json.Options) error {
	if numbers := For(reflect.TypeOf(into), len(text), Costly(text)); numbers != nil {
		options = append(options, json.WithUnmarshalers(numbers))
	}
	return json.Unmarshal(text, into, options...)
}

// Few is how many numbers that are [Hard] a text may have without being [Costly].
const Few = 8

// Hard reports whether strconv may need long for a number with this many bytes and this exponent.
func Hard(bytes, exponent int) bool { return bytes > 15 || exponent > 30 || exponent < -30 }

// Costly reports whether a JSON text may have so many numbers that are hard that it must be decoded by this package.
func Costly(text []byte) bool { return CountHard(text) > Few }

// CountHard counts the numbers in a JSON text that are hard, up to one more than [Few].
func CountHard(text []byte) (hard int) {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			end, _ := SkipString(text, i)
			i = end - 1
		case c == '-' || c >= '0' && c <= '9':
			from, exponent := i, 0
			for i+1 < len(text) && inNumber[text[i+1]] {
				if i++; text[i]|0x20 == 'e' {
					exponent = i + 1
				}
			}
			if exponent > 0 && exponent <= i {
				exponent = exponentOf(text[exponent : i+1])
			}
			if Hard(i+1-from, exponent) {
				hard++
			}
		}
		if hard > Few {
			break
		}
	}
	return hard
}

var inNumber = func() (all [256]bool) {
	for _, c := range "+-.0123456789eE" {
		all[c] = true
	}
	return all
}()

// Numbers decodes what json/v2 takes long for: numbers into floats and lists of floats, values of type any ([Any]), and maps from
// strings to strings, float64 and any. For types
// that a program has made of floats there is [NamedNumbers].
var Numbers = json.JoinUnmarshalers(
	json.UnmarshalFromFunc(float[float64]), json.UnmarshalFromFunc(float[float32]), Any,
	json.UnmarshalFromFunc(list[float64]), json.UnmarshalFromFunc(list[float32]), stringMaps,
)

func float[T float32 | float64](dec *jsontext.Decoder, into *T) error {
	f, err := next(dec, reflect.TypeFor[T]())
	if err == nil {
		*into = T(f)
	}
	return err
}

// next decodes the number that comes next for a type.
func next(dec *jsontext.Decoder, t reflect.Type) (float64, error) {
	if inString, _ := json.GetOption(dec.Options(), json.StringifyNumbers); inString || dec.PeekKind() != '0' {
		return 0, errors.ErrUnsupported
	}
	raw, err := dec.ReadValue()
	if err != nil {
		return 0, err
	}
	f, err := Float(raw, t.Bits())
	if err != nil {
		return 0, &json.SemanticError{JSONPointer: dec.StackPointer(), JSONKind: '0', GoType: t, Err: err}
	}
	return f, nil
}
