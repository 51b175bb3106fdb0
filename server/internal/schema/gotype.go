package schema

import (
	"encoding"
	"reflect"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
)

// A shapeKind is the JSON that a Go type turns into, as far as the rest of the package cares.
type shapeKind int

const (
	formless shapeKind = iota // no JSON form: channels, functions, time.Duration
	anything                  // schema true: interfaces and types with JSON methods
	scalar                    // string, number or boolean of a builtin kind
	integer                   // an integer kind
	text                      // a string that stands for something else
	instant                   // time.Time
	list                      // slice or array
	dict                      // map
	record                    // struct
)

var (
	timeType     = reflect.TypeFor[time.Time]()
	durationType = reflect.TypeFor[time.Duration]()

	jsonMethods = []reflect.Type{
		reflect.TypeFor[json.MarshalerTo](), reflect.TypeFor[json.Marshaler](),
		reflect.TypeFor[json.UnmarshalerFrom](), reflect.TypeFor[json.Unmarshaler](),
	}
	textMarshalers = []reflect.Type{
		reflect.TypeFor[encoding.TextAppender](), reflect.TypeFor[encoding.TextMarshaler](),
	}
	textUnmarshaler = []reflect.Type{reflect.TypeFor[encoding.TextUnmarshaler]()}
)

// shapeKindOf looks for the JSON form of a type in the order of json/v2: methods for JSON,
// methods for text, then the kind. t must not be a pointer.
func shapeKindOf(t reflect.Type) shapeKind {
	switch {
	case t == timeType:
		return instant
	case t == durationType:
		return formless
	case implements(t, jsonMethods):
		return anything
	case hasTextMethods(t):
		return text
	}
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Float32, reflect.Float64:
		return scalar
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return integer
	case reflect.Interface:
		return anything
	case reflect.Slice, reflect.Array:
		if isBytes(t) {
			return text
		}
		return list
	case reflect.Map:
		return dict
	case reflect.Struct:
		return record
	}
	return formless
}

// implements reports whether t or *t has the methods of one of the interfaces:
// json/v2 calls methods with pointer receivers wherever they are found.
func implements(t reflect.Type, interfaces []reflect.Type) bool {
	return slices.ContainsFunc(interfaces, func(i reflect.Type) bool {
		return t.Implements(i) || reflect.PointerTo(t).Implements(i)
	})
}

func hasTextMethods(t reflect.Type) bool {
	return implements(t, textMarshalers) || implements(t, textUnmarshaler)
}

// isBytes reports whether t is a slice or an array of the type byte itself, not of a type
// made from it.
func isBytes(t reflect.Type) bool {
	return (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) && t.Elem() == reflect.TypeFor[byte]()
}

// isBase64 reports whether json/v2 encodes t as base64: bytes without text methods.
func isBase64(t reflect.Type) bool { return isBytes(t) && !hasTextMethods(t) }

// maxPointers bounds chains of pointers: type P *P has no end.
const maxPointers = 8

// deref follows pointers.
func deref(t reflect.Type) reflect.Type {
	for n := 0; t.Kind() == reflect.Pointer && n < maxPointers; n++ {
		t = t.Elem()
	}
	return t
}
