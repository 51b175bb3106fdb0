package schema

import (
	"maps"
	"reflect"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
)

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

func forType(t reflect.Type, way direction) (s *Schema, err error) {
	defer wrap(&err, "schema of %v", t)
	in := newInference(way)
	shape, err := in.shapeOf(t, "")
	if err != nil {
		return nil, err
	}
	raw, err := in.schemaOf(t, shape)
	if err != nil {
		return nil, err
	}
	if s, err = compile(raw, fromType); err != nil {
		return nil, err
	}
	s.target, s.shape, s.presets = reflect.PointerTo(t), shape, in.presets
	s.exact, s.proven = in.exact, in.exact && !in.unproven
	s.loose, s.aliases = in.loose, in.aliases
	return s, nil
}

// schemaOf returns the schema of t, whose shape is s. The inference proper is that of
// google/jsonschema-go, which reads a type as encoding/json would; the shape is how json/v2
// reads it. Where the two differ in a leaf, jsonschema-go gets the schema; where they
// differ in the members of a struct, that is an error, because a schema that is wrong about
// its decoder is worse than none.
func (in *inference) schemaOf(t reflect.Type, s *shape) (jsontext.Value, error) {
	out, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: in.leaves})
	if err != nil {
		return nil, err
	}
	if err := in.reconcile(s, out, ""); err != nil {
		return nil, err
	}
	return out.MarshalJSON()
}

// reconcile walks an inferred schema along its shape, and mends or refuses what does not
// agree with json/v2.
func (in *inference) reconcile(s *shape, out *jsonschema.Schema, at string) error {
	if out == nil {
		return fieldError(at, "no schema was inferred")
	}
	var err error
	switch s.kind {
	case anything:
		// jsonschema-go writes "null" as the only type of a pointer to such a
		// type; the description is all there is to keep.
		*out = jsonschema.Schema{Description: out.Description}
		return nil
	case list:
		// jsonschema-go allows null for slices, which json/v2 never writes and
		// a handler does not expect.
		s.setType(out, "array")
		err = in.reconcile(s.elem, out.Items, at+"[]")
	case dict:
		err = in.reconcile(s.elem, out.AdditionalProperties, at+"{}")
	case record:
		err = in.reconcileFields(s, out, at)
	}
	if err != nil {
		return err
	}
	return in.compare(s, out, at)
}

// setType sets the type of a schema, and lets the value be null if s is nullable.
func (s *shape) setType(out *jsonschema.Schema, typ string) {
	if s.nullable {
		out.Type, out.Types = "", []string{"null", typ}
	} else {
		out.Type, out.Types = typ, nil
	}
}

// reconcileFields checks that jsonschema-go found the fields that json/v2 has, and adds
// what their tags say.
func (in *inference) reconcileFields(s *shape, out *jsonschema.Schema, at string) error {
	want, found := map[string]bool{}, map[string]bool{} // the names, and whether they are required
	for _, f := range s.fields {
		want[f.name] = !f.omittable
	}
	for name := range out.Properties {
		found[name] = slices.Contains(out.Required, name)
	}
	if !maps.Equal(want, found) {
		return fieldError(at, "the members of %v are read differently by the schema's inference: "+
			"check embedded structs for fields that hide each other or are excluded", s.typ)
	}
	for _, f := range s.fields {
		property := out.Properties[f.name]
		if err := in.reconcile(f.shape, property, join(at, f.name)); err != nil {
			return err
		}
		got, err := f.applyTags(property, fromType)
		if err != nil {
			return fieldError(join(at, f.name), "%w", err)
		}
		in.exact = in.exact && !got.binds
		if in.way == decoded && got.preset != nil {
			f.preset, _ = f.shape.completed(got.preset, nil) // it was checked
			in.presets = true
			out.Required = slices.DeleteFunc(out.Required, func(name string) bool { return name == f.name })
		}
		if f.header != "" {
			property.Extra = map[string]any{headerKeyword: f.header}
		}
	}
	return nil
}

// compare finds out whether the schema says more than the shape: keywords that
// a tag brought in, now or in a later version of the inference.
func (in *inference) compare(s *shape, out *jsonschema.Schema, at string) error {
	rest := *out
	rest.Description = ""
	want := jsonschema.Schema{}
	switch s.kind {
	case list:
		s.setType(&want, "array")
		rest.Items = nil
		if s.typ.Kind() == reflect.Array {
			want.MinItems, want.MaxItems = jsonschema.Ptr(s.typ.Len()), jsonschema.Ptr(s.typ.Len())
		}
	case dict:
		s.setType(&want, "object")
		rest.AdditionalProperties = nil
	case record:
		s.setType(&want, "object")
		want.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}}
		rest.Properties, rest.PropertyOrder, rest.Required = nil, nil, nil
	default:
		bare, err := jsonschema.ForType(s.typ, &jsonschema.ForOptions{TypeSchemas: in.leaves})
		if err != nil {
			return fieldError(at, "%w", err)
		}
		want = *bare
		s.setType(&want, bare.Type)
	}
	if !slices.Equal(typesOf(&rest), typesOf(&want)) {
		return fieldError(at, "inferred type %v, but json/v2 has %v", typesOf(&rest), typesOf(&want))
	}
	in.exact = in.exact && reflect.DeepEqual(rest, want)
	return nil
}

func typesOf(s *jsonschema.Schema) []string {
	if s.Type != "" {
		return []string{s.Type}
	}
	return s.Types
}
