// Package schema holds the JSON Schemas of tools: inferred from Go types or
// given by hand, compiled once at registration, and then used to validate and
// decode arguments and results (MCP tools, spec section "Tools").
//
// Schemas come from two places. [For] infers one from a Go type, with the
// field rules of encoding/json/v2, and keeps enough of the type to decode a
// value in one typed pass when that pass proves the schema. [Parse] takes one
// that was written by hand, keeps it keyword for keyword and validates every value
// against it.
//
// Nothing here performs I/O: a $ref that leaves the document is an error.
package schema

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	jsv "github.com/santhosh-tekuri/jsonschema/v6"
)

// A Schema is a compiled JSON Schema. It never changes after [For] or [Parse]
// returned it and is safe for concurrent use.
type Schema struct {
	raw      jsontext.Value
	compiled *jsv.Schema
	object   bool // the root says "type": "object"
	headers  []Header
	names    map[string]bool // of the properties that it speaks of

	// The rest is set by For only.
	target reflect.Type // pointer to the Go type, what Decode knows how to fill
	shape  *shape       // how json/v2 reads that type
	exact  bool         // the shape and typed decoding prove the schema
	proven bool         // encoding the type proves the schema
}

// For infers the schema of t, as encoding/json/v2 encodes and decodes it.
//
//   - Integers, floats, strings, booleans, arrays, structs and maps with string
//     keys become what their names say. Sized integers carry their range.
//   - A slice is an array and a map an object, never null: json/v2 encodes nil
//     ones as [] and {}. A pointer adds null. []byte and [N]byte are base64
//     strings.
//   - [time.Time] is a string with format date-time. [time.Duration] has no
//     form in json/v2 and is an error.
//   - A type with text methods (encoding.TextMarshaler or TextUnmarshaler) is a
//     string. A type with JSON methods (among them json.RawMessage and
//     jsontext.Value) and the type any are the schema true: anything.
//   - A struct allows no other properties. Fields with omitempty or omitzero
//     are optional, all others required, pointers too.
//   - The tag jsonschema:"…" gives a field its description, the tag
//     mcpheader:"Name" the annotation x-mcp-header (see [Header]).
//   - Keywords of JSON Schema are tags of their own: title, description, deprecated,
//     readOnly, writeOnly; of strings format, pattern, minLength, maxLength; of numbers
//     minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf; of slices and
//     arrays minItems, maxItems, uniqueItems; of maps and structs minProperties and
//     maxProperties. enum has the choices of a scalar, or of the items of a list, with
//     commas between them; default is what the Go value has when the member is missing,
//     which it then may be; examples are written as enum.
//     Formats and patterns are asserted.
//
// What cannot be expressed, and what json/v2 and the inference would read
// differently (json options other than omitempty and omitzero, embedded structs
// with a JSON name, two fields with one JSON name), is an error that names the
// field. So are recursive types, tags that contradict the type of their field, and tags
// that look like JSON Schema and are not understood.
func For(t reflect.Type) (*Schema, error) { return forType(t, decoded) }

// ForOutput is [For] of a type whose values are encoded: a field with a default is always
// there, unless it has omitempty or omitzero.
func ForOutput(t reflect.Type) (*Schema, error) { return forType(t, encoded) }

func forType(t reflect.Type, way direction) (*Schema, error) {
	shape, err := shapeOf(t, way)
	if err != nil {
		return nil, fmt.Errorf("schema of %v: %w", t, err)
	}
	raw, exact, err := infer(t, shape, way)
	if err != nil {
		return nil, fmt.Errorf("schema of %v: %w", t, err)
	}
	s, err := compile(raw, inferred)
	if err != nil {
		return nil, fmt.Errorf("schema of %v: %w", t, err)
	}
	s.target, s.shape = reflect.PointerTo(t), shape
	s.exact, s.proven = exact, exact && shape.provenByEncoding()
	return s, nil
}

// Parse compiles a schema that was given by hand. It is kept keyword for
// keyword, in its order and with its numbers as written, but not byte for byte:
// white space between tokens is dropped, because a line break must not get into
// the frame of a byte stream or of an event stream.
//
// The dialect is 2020-12 unless $schema names 2019-09, draft-07, draft-06 or
// draft-04. Formats are judged as each dialect says: annotations from 2019-09
// on, assertions before. Patterns are RE2, so a look-ahead is an error. A
// schema is at most [MaxSize] bytes and [MaxDepth] levels deep.
func Parse(raw jsontext.Value) (*Schema, error) {
	s, err := compile(raw, given)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return s, nil
}

// JSON is the schema as tools/list shows it. The caller must not change it.
func (s *Schema) JSON() jsontext.Value { return s.raw }

// RequireObject is an error unless the root of the schema says
// "type": "object", which the inputSchema of a tool must.
func (s *Schema) RequireObject() error {
	if s.object {
		return nil
	}
	return fmt.Errorf(`schema: the root must have "type": "object" (a struct or a map, not a pointer to one)`)
}

// ProvenByType tells whether every value of the Go type given to [For] satisfies
// the schema once json/v2 has encoded it with its default options, so that
// validating the output again would be wasted. It is false for parsed schemas,
// and where the encoding may drop required members or take another form.
func (s *Schema) ProvenByType() bool { return s.proven }

// Headers are the x-mcp-header annotations of the schema, ordered by path.
func (s *Schema) Headers() []Header { return slices.Clone(s.headers) }
