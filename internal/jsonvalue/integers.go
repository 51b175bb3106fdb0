package jsonvalue

import (
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// WithIntegers returns what [For] has returned, for slices and maps of integers in any notation as well: 2.0 and 20e-1 are 2. Lists take
// two thirds of the time that json/v2 needs for plain integers, and maps half of it (BenchmarkList, BenchmarkMaps). The maps are decoded
// so only if names that are there twice are no error. It returns nil for nil.
func WithIntegers(numbers *json.Unmarshalers) *json.Unmarshalers {
	switch numbers {
	case Numbers:
		return numbersAndIntegers
	case NamedNumbers:
		return namedAndIntegers
	}
	return numbers
}

var (
	numbersAndIntegers = json.JoinUnmarshalers(integers, Numbers)
	namedAndIntegers   = json.JoinUnmarshalers(integers, NamedNumbers)

	// integers are for the types of [OfIntegers].
	integers = json.JoinUnmarshalers(
		integerLists[int](), integerLists[int32](), integerLists[int64](), integerLists[uint](), integerLists[uint32](), integerLists[uint64](),
		integerMaps[int](), integerMaps[int64](),
	)
)

// OfIntegers reports whether [WithIntegers] is for values of a type: [IsIntegerList], and maps from strings to int and int64.
func OfIntegers(t reflect.Type) bool {
	return IsIntegerList(t) || t == reflect.TypeFor[map[string]int]() || t == reflect.TypeFor[map[string]int64]()
}

// IsIntegerList reports whether values of a type are slices of integers of 32 or 64 bits. Each type takes 2 KB of the program; in smaller
// integers a text can say no more than json/v2 reads fast enough.
func IsIntegerList(t reflect.Type) bool {
	if t.Kind() != reflect.Slice || t.Name() != "" || t.Elem().PkgPath() != "" {
		return false
	}
	item := t.Elem().Kind()
	return item >= reflect.Int && item <= reflect.Uint64 && t.Elem().Bits() >= 32
}

type integer interface {
	int | int32 | int64 | uint | uint32 | uint64
}

func integerLists[T integer]() *json.Unmarshalers {
	return json.UnmarshalFromFunc(func(dec *jsontext.Decoder, into *[]T) error {
		var values []T
		err := eachInteger(dec, reflect.TypeFor[T](), func(count int) { values = make([]T, 0, count) }, func(n uint64) { values = append(values, T(n)) })
		if err == nil {
			*into = values
		}
		return err
	})
}

// eachInteger is [eachNumber] for a type of integers. It calls item with the bits of each, extended with its sign, and 0 for null. It
// is no generic function, which would be compiled for each type.
func eachInteger(dec *jsontext.Decoder, t reflect.Type, begin func(count int), item func(n uint64)) error {
	all := rangeOf(t)
	return eachNumber(dec, t, begin, func(literal []byte) (err error) {
		var n uint64
		if literal != nil {
			n, err = all.read(literal)
		}
		item(n)
		return err
	})
}

func integerMaps[T int | int64]() *json.Unmarshalers {
	all := rangeOf(reflect.TypeFor[T]())
	return mapsOf(func(text []byte) (T, error) {
		if !inNumber[text[0]] {
			return 0, errOtherType
		}
		n, err := all.read(text)
		return T(n), err
	})
}
