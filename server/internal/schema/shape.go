package schema

import (
	"reflect"

	"github.com/go-json-experiment/json/jsontext"
)

// A shape is what json/v2 makes of a Go type: the part of the schema that the
// typed decoder does not enforce (null, required members).
type shape struct {
	kind     shapeKind
	nullable bool // reached through a pointer
	typ      reflect.Type

	elem     *shape   // items of a list, values of a dict
	fields   []*field // of a record, in the order of the Go type
	byName   map[string]*field
	required int // how many of the fields are
}

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

// jsonType is the JSON type of a shape but for null, or "".
func (s *shape) jsonType() string {
	if k := goKinds(s.typ); k != 0 {
		return k.String()
	}
	return ""
}

// isScalar reports whether the values are strings, numbers or booleans.
func (s *shape) isScalar() bool { return goKinds(s.typ)&(stringKind|numberKind|booleanKind) != 0 }
