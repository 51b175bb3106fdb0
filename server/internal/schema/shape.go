package schema

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A shape is what json/v2 makes of a Go type: the part of the schema that the
// typed decoder does not enforce (null, required members), and what must be told
// to the inference, which reads types as encoding/json does.
type shape struct {
	kind     form
	nullable bool // reached through a pointer
	typ      reflect.Type

	elem     *shape   // items of a list, values of a dict
	fields   []*field // of a record, in the order of the Go type
	byName   map[string]*field
	required int // how many of the fields are
	// presets says that there are fields with a default, here or deeper.
	presets bool

	// unproven marks a shape whose encoding may differ from its schema.
	unproven bool
}

// A form is the JSON a type turns into, as far as the rest of the package cares.
type form int

const (
	anything form = iota // schema true: interfaces and types with JSON methods
	scalar               // string, number or boolean of a builtin kind
	integer              // an integer kind, see Schema.integers
	text                 // a string that stands for something else
	instant              // time.Time
	list                 // slice or array
	dict                 // map
	record               // struct
)

// A field is one member of a record.
type field struct {
	name      string
	required  bool   // of a value that is decoded
	omittable bool   // the encoding may leave it out
	header    string // the mcpheader tag
	tags      []tag  // those about the schema
	shape     *shape
	preset    jsontext.Value // stands for a member that is missing; nil for the zero value
}

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

// shapeOf reads a type, as it is decoded or as it is encoded. Errors name the field that
// they are about.
func shapeOf(t reflect.Type, way direction) (*shape, error) {
	if t == nil {
		return nil, errors.New("a nil type has no schema")
	}
	return (&typeWalk{way: way}).visit(t, "")
}

// A direction is what becomes of the values of a type.
type direction bool

const (
	decoded direction = true // a field with a default may be missing
	encoded direction = false
)

// typeWalk remembers the named types it is inside of, to find recursion.
type typeWalk struct {
	way    direction
	inside []reflect.Type
}

// maxPointers bounds chains of pointers; type P *P has no end.
const maxPointers = 8

func (w *typeWalk) visit(t reflect.Type, at string) (*shape, error) {
	s := &shape{}
	for n := 0; t.Kind() == reflect.Pointer; n++ {
		if n == maxPointers {
			return nil, fieldError(at, "type %v is a pointer to a pointer to a pointer", t)
		}
		s.nullable, t = true, t.Elem()
	}
	s.typ = t
	if slices.Contains(w.inside, t) {
		return nil, fieldError(at, "type %v is recursive, which a schema without references cannot express", t)
	}
	if t.Name() != "" {
		w.inside = append(w.inside, t)
		defer func() { w.inside = w.inside[:len(w.inside)-1] }()
	}
	return s, w.classify(s, t, at)
}

// classify follows the order in which json/v2 looks for a representation:
// methods for JSON, methods for text, then the kind.
func (w *typeWalk) classify(s *shape, t reflect.Type, at string) error {
	switch {
	case t == timeType:
		s.kind = instant
		return nil
	case t == durationType:
		return fieldError(at, "time.Duration has no JSON form: use a number with its unit in the name (timeout_ms int64) or a string")
	case implements(t, jsonMethods):
		s.kind = anything
		return nil
	case implements(t, textMarshalers), implements(t, textUnmarshaler):
		s.kind = text
		s.unproven = !implements(t, textMarshalers)
		return nil
	}
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Float32, reflect.Float64:
		s.kind = scalar
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		s.kind = integer
	case reflect.Interface:
		if t.NumMethod() > 0 {
			return fieldError(at, "interface %v cannot be decoded into: use any or a concrete type", t)
		}
		s.kind = anything
	case reflect.Slice, reflect.Array:
		if isBytes(t) {
			s.kind = text
			return nil
		}
		return w.list(s, t, at)
	case reflect.Map:
		return w.dict(s, t, at)
	case reflect.Struct:
		return w.record(s, t, at)
	default:
		return fieldError(at, "type %v has no JSON form", t)
	}
	return nil
}

func (w *typeWalk) list(s *shape, t reflect.Type, at string) (err error) {
	s.kind = list
	s.elem, err = w.visit(t.Elem(), at+"[]")
	return err
}

func (w *typeWalk) dict(s *shape, t reflect.Type, at string) (err error) {
	if t.Key().Kind() != reflect.String && !implements(t.Key(), textMarshalers) {
		return fieldError(at, "map key type %v is not a string", t.Key())
	}
	s.kind = dict
	s.elem, err = w.visit(t.Elem(), at+"{}")
	return err
}

// implements tells whether t or *t has the methods of one of the interfaces:
// json/v2 calls methods with pointer receivers wherever they are found.
func implements(t reflect.Type, interfaces []reflect.Type) bool {
	return slices.ContainsFunc(interfaces, func(i reflect.Type) bool {
		return t.Implements(i) || reflect.PointerTo(t).Implements(i)
	})
}

// isBytes tells whether json/v2 encodes t as base64: a slice or array of byte
// itself, not of a type made from it.
func isBytes(t reflect.Type) bool {
	return t.Elem() == reflect.TypeFor[byte]()
}

// provenByEncoding tells whether all values of the type satisfy the inferred
// schema once encoded. Nil slices and maps do (json/v2 writes [] and {}), nil
// pointers do (the schema allows null), numbers keep their range by their kind.
func (s *shape) provenByEncoding() bool {
	if s.unproven || s.elem != nil && !s.elem.provenByEncoding() {
		return false
	}
	return !slices.ContainsFunc(s.fields, func(f *field) bool { return !f.shape.provenByEncoding() })
}

// fieldError is an error about the field at a path like "days[].high".
func fieldError(at, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if at == "" {
		return err
	}
	return fmt.Errorf("field %s: %w", at, err)
}
