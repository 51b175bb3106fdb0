package schema

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/google/jsonschema-go/jsonschema"
)

// A direction says whether the values of a type are decoded or encoded.
type direction bool

const (
	decoded direction = true // a field with a default may be missing
	encoded direction = false
)

// An inference finds the shape and the schema of one type.
type inference struct {
	way    direction
	inside []reflect.Type // the named types that are being read, to find recursion
	// leaves are the schemas of types whose JSON form jsonschema-go does not know.
	leaves map[reflect.Type]*jsonschema.Schema
	// exact is true if the shape contains all rules of the schema, so that typed decoding
	// under the shape proves the schema.
	exact bool
	// unproven is true if the encoding of a value may not satisfy the schema.
	unproven bool
	// presets is true if there are fields with a default.
	presets bool
	// loose is true if there are values of type any.
	loose bool
	// aliases is true if there are maps in which two names may be the same key.
	aliases bool
}

func newInference(way direction) *inference {
	return &inference{way: way, exact: true, leaves: map[reflect.Type]*jsonschema.Schema{}}
}

// shapeOf returns the shape of a type. Its errors name the field.
func (in *inference) shapeOf(t reflect.Type, at string) (*shape, error) {
	if t == nil {
		return nil, fieldError(at, "a nil type has no schema")
	}
	s := &shape{}
	for n := 0; t.Kind() == reflect.Pointer; n++ {
		if n == maxPointers {
			return nil, fieldError(at, "type %v is a pointer to a pointer to a pointer", t)
		}
		s.nullable, t = true, t.Elem()
	}
	s.kind, s.typ = shapeKindOf(t), t
	if slices.Contains(in.inside, t) {
		return nil, fieldError(at, "type %v is recursive, which a schema without references cannot express", t)
	}
	if t.Name() != "" {
		in.inside = append(in.inside, t)
		defer func() { in.inside = in.inside[:len(in.inside)-1] }()
	}
	return s, in.read(s, at)
}

// read reads the parts of the type of s.
func (in *inference) read(s *shape, at string) (err error) {
	t := s.typ
	switch s.kind {
	case formless:
		if t == durationType {
			return fieldError(at, "time.Duration has no JSON form: use a number with its unit in the name (timeout_ms int64) or a string")
		}
		return fieldError(at, "type %v has no JSON form", t)
	case anything:
		if t.Kind() == reflect.Interface && t.NumMethod() > 0 && !implements(t, jsonMethods) {
			return fieldError(at, "interface %v cannot be decoded into: use any or a concrete type", t)
		}
		in.loose = in.loose || t == reflect.TypeFor[any]()
		in.leaves[t] = &jsonschema.Schema{}
	case instant:
		in.leaves[t] = &jsonschema.Schema{Type: "string", Format: "date-time"}
	case text:
		leaf := &jsonschema.Schema{Type: "string"}
		if isBase64(t) {
			leaf.ContentEncoding = "base64"
		} else if !implements(t, textMarshalers) {
			in.unproven = true
		}
		in.leaves[t] = leaf
	case list:
		s.elem, err = in.shapeOf(t.Elem(), at+"[]")
	case dict:
		if t.Key().Kind() != reflect.String && !implements(t.Key(), textMarshalers) {
			return fieldError(at, "map key type %v is not a string", t.Key())
		}
		in.aliases = in.aliases || implements(t.Key(), textUnmarshaler) || implements(t.Key(), jsonMethods[2:])
		s.elem, err = in.shapeOf(t.Elem(), at+"{}")
	case record:
		err = in.record(s, t, at)
	}
	return err
}

// record reads the fields of a struct as json/v2 does.
func (in *inference) record(s *shape, t reflect.Type, at string) error {
	// json/v2 checks a struct when it is first used. Decoding an empty object returns
	// its errors now (malformed tags, two fields with one name, no exported fields), and
	// calls no method of the user.
	if err := json.Unmarshal([]byte(`{}`), reflect.New(t).Interface()); err != nil {
		return fieldError(at, "%w", err)
	}
	s.byName = make(map[string]*field)
	return in.members(s, t, at)
}

// members adds the fields of t and of the structs embedded in it to s.
func (in *inference) members(s *shape, t reflect.Type, at string) error {
	for i := range t.NumField() {
		sf := t.Field(i)
		tag := sf.Tag.Get("json")
		if tag == "-" || !sf.IsExported() && !sf.Anonymous {
			continue
		}
		name, options, err := parseTag(tag)
		if err != nil {
			return fieldError(join(at, sf.Name), "%w", err)
		}
		if sf.Anonymous {
			if err := in.embedded(s, sf, name, at); err != nil {
				return err
			}
			continue
		}
		if name == "" {
			name = sf.Name
		}
		if err := in.member(s, sf, name, options, join(at, name)); err != nil {
			return err
		}
	}
	return nil
}

func (in *inference) member(s *shape, sf reflect.StructField, name string, options []string, at string) error {
	if s.byName[name] != nil {
		return fieldError(at, "two fields have the JSON name %q", name)
	}
	header, annotated := sf.Tag.Lookup("mcpheader")
	if annotated && header == "" {
		return fieldError(at, "the mcpheader tag is empty")
	}
	tags, err := schemaTags(sf.Tag)
	if err != nil {
		return fieldError(at, "%w", err)
	}
	sub, err := in.shapeOf(sf.Type, at)
	if err != nil {
		return err
	}
	f := &field{name: name, header: header, tags: tags, shape: sub, omittable: len(options) > 0}
	f.required = !f.omittable && !(in.way == decoded && hasTag(tags, defaultTag))
	s.fields = append(s.fields, f)
	s.byName[name] = f
	if f.required {
		s.required++
	}
	return nil
}

// embedded adds the fields of an embedded struct to the record it is in.
func (in *inference) embedded(s *shape, sf reflect.StructField, name, at string) error {
	at = join(at, sf.Name)
	tags, err := schemaTags(sf.Tag)
	if err == nil && len(tags) > 0 {
		err = fmt.Errorf("tag %s is on an embedded struct, which is no property: move it to a field", tags[0].key)
	}
	if err != nil {
		return fieldError(at, "%w", err)
	}
	if name != "" {
		return fieldError(at, "an embedded struct with a JSON name is not supported: make it a field with a name of its own")
	}
	t, indirect := sf.Type, false
	if t.Kind() == reflect.Pointer {
		t, indirect = t.Elem(), true
	}
	if indirect && !sf.IsExported() {
		return fieldError(at, "an embedded pointer to an unexported struct cannot be decoded into")
	}
	if slices.Contains(in.inside, t) {
		return fieldError(at, "type %v is recursive, which a schema without references cannot express", t)
	}
	in.inside = append(in.inside, t)
	defer func() { in.inside = in.inside[:len(in.inside)-1] }()
	required := s.required
	if err := in.members(s, t, strings.TrimSuffix(at, sf.Name)); err != nil {
		return err
	}
	// The encoding leaves out all members of a nil pointer.
	in.unproven = in.unproven || indirect && s.required > required
	return nil
}

// parseTag splits a json tag. It allows only what json/v2 and jsonschema-go read alike.
func parseTag(tag string) (name string, options []string, err error) {
	name, rest, _ := strings.Cut(tag, ",")
	if rest == "" {
		return name, nil, nil
	}
	options = strings.Split(rest, ",")
	for _, option := range options {
		if option != "omitempty" && option != "omitzero" {
			return "", nil, fmt.Errorf("json option %q is not supported: only omitempty and omitzero are", option)
		}
	}
	return name, options, nil
}
