package schema

import (
	"maps"
	"reflect"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
)

// infer writes the schema of t. The inference proper is google/jsonschema-go's,
// which reads a type as encoding/json would; the shape is how json/v2 reads it.
// Where the two differ in a leaf, the inference is told what to write; where
// they differ in the members of a struct, that is an error, because a schema
// that is wrong about its decoder is worse than none.
//
// exact tells whether the shape says all that the schema says, so that typed
// decoding under the shape proves the schema.
func infer(t reflect.Type, s *shape, way direction) (raw jsontext.Value, exact bool, err error) {
	leaves := make(map[reflect.Type]*jsonschema.Schema)
	s.overrides(leaves)
	out, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: leaves})
	if err != nil {
		return nil, false, err
	}
	r := reconciler{leaves: leaves, exact: true, way: way}
	if err := r.reconcile(s, out, ""); err != nil {
		return nil, false, err
	}
	raw, err = out.MarshalJSON()
	return raw, r.exact, err
}

// overrides collects the types whose JSON form the inference cannot know.
func (s *shape) overrides(to map[reflect.Type]*jsonschema.Schema) {
	switch s.kind {
	case anything:
		to[s.typ] = &jsonschema.Schema{}
	case instant:
		to[s.typ] = &jsonschema.Schema{Type: "string", Format: "date-time"}
	case text:
		to[s.typ] = &jsonschema.Schema{Type: "string"}
		if k := s.typ.Kind(); (k == reflect.Slice || k == reflect.Array) && isBytes(s.typ) && !implements(s.typ, textMarshalers) && !implements(s.typ, textUnmarshaler) {
			to[s.typ].ContentEncoding = "base64"
		}
	}
	if s.elem != nil {
		s.elem.overrides(to)
	}
	for _, f := range s.fields {
		f.shape.overrides(to)
	}
}

// A reconciler walks an inferred schema along its shape and mends or refuses
// what does not agree with json/v2.
type reconciler struct {
	leaves map[reflect.Type]*jsonschema.Schema
	way    direction
	exact  bool
}

func (r *reconciler) reconcile(s *shape, out *jsonschema.Schema, at string) error {
	if out == nil {
		return fieldError(at, "no schema was inferred")
	}
	switch s.kind {
	case anything:
		// The inference writes "null" as the only type of a pointer to such a
		// type; the description is all there is to keep.
		*out = jsonschema.Schema{Description: out.Description}
		return nil
	case list:
		// The inference allows null for slices, which json/v2 never writes and
		// a handler does not expect.
		r.setType(s, out, "array")
		if err := r.reconcile(s.elem, out.Items, at+"[]"); err != nil {
			return err
		}
		s.presets = s.elem.presets
	case dict:
		if err := r.reconcile(s.elem, out.AdditionalProperties, at+"{}"); err != nil {
			return err
		}
		s.presets = s.elem.presets
	case record:
		if err := r.record(s, out, at); err != nil {
			return err
		}
	}
	return r.compare(s, out, at)
}

func (r *reconciler) setType(s *shape, out *jsonschema.Schema, typ string) {
	if s.nullable {
		out.Type, out.Types = "", []string{"null", typ}
	} else {
		out.Type, out.Types = typ, nil
	}
}

// record checks that the inference found the fields that json/v2 has.
func (r *reconciler) record(s *shape, out *jsonschema.Schema, at string) error {
	var names, required []string
	for _, f := range s.fields {
		names = append(names, f.name)
		if !f.omittable {
			required = append(required, f.name)
		}
	}
	found := slices.Sorted(maps.Keys(out.Properties))
	if !slices.Equal(slices.Sorted(slices.Values(names)), found) ||
		!slices.Equal(slices.Sorted(slices.Values(required)), slices.Sorted(slices.Values(out.Required))) {
		return fieldError(at, "the members of %v are read differently by the schema's inference: "+
			"check embedded structs for fields that hide each other or are excluded", s.typ)
	}
	for _, f := range s.fields {
		property := out.Properties[f.name]
		if err := r.reconcile(f.shape, property, join(at, f.name)); err != nil {
			return err
		}
		got, err := f.applyTags(property, inferred)
		if err != nil {
			return fieldError(join(at, f.name), "%w", err)
		}
		r.exact = r.exact && !got.binds
		if r.way == decoded && got.preset != nil {
			f.preset, s.presets = f.shape.completed(got.preset), true
			out.Required = slices.DeleteFunc(out.Required, func(name string) bool { return name == f.name })
		}
		s.presets = s.presets || f.shape.presets
		if f.header != "" {
			property.Extra = map[string]any{headerKeyword: f.header}
		}
	}
	return nil
}

// compare finds out whether the schema says more than the shape: keywords that
// a tag brought in, now or in a later version of the inference.
func (r *reconciler) compare(s *shape, out *jsonschema.Schema, at string) error {
	rest := *out
	rest.Description = ""
	want := jsonschema.Schema{}
	switch s.kind {
	case list:
		r.setType(s, &want, "array")
		rest.Items = nil
		if s.typ.Kind() == reflect.Array {
			want.MinItems, want.MaxItems = jsonschema.Ptr(s.typ.Len()), jsonschema.Ptr(s.typ.Len())
		}
	case dict:
		r.setType(s, &want, "object")
		rest.AdditionalProperties = nil
	case record:
		r.setType(s, &want, "object")
		want.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}}
		rest.Properties, rest.PropertyOrder, rest.Required = nil, nil, nil
	default:
		bare, err := jsonschema.ForType(s.typ, &jsonschema.ForOptions{TypeSchemas: r.leaves})
		if err != nil {
			return fieldError(at, "%w", err)
		}
		want = *bare
		r.setType(s, &want, bare.Type)
	}
	if !slices.Equal(types(&rest), types(&want)) {
		return fieldError(at, "inferred type %v, but json/v2 has %v", types(&rest), types(&want))
	}
	r.exact = r.exact && reflect.DeepEqual(rest, want)
	return nil
}

func types(s *jsonschema.Schema) []string {
	if s.Type != "" {
		return []string{s.Type}
	}
	return s.Types
}
