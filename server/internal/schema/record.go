package schema

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
)

// record reads the fields of a struct as json/v2 does.
func (w *typeWalk) record(s *shape, t reflect.Type, at string) error {
	// json/v2 judges a struct when it is first used. Decoding an empty object
	// gets that verdict (malformed tags, two fields with one name, no exported
	// fields) now, and calls no method of the user's.
	if err := json.Unmarshal([]byte(`{}`), reflect.New(t).Interface()); err != nil {
		return fieldError(at, "%w", err)
	}
	s.kind = record
	s.byName = make(map[string]*field)
	return w.members(s, t, at)
}

// members adds the fields of t to s: those of the record itself, and through
// recursion those of the structs embedded in it.
func (w *typeWalk) members(s *shape, t reflect.Type, at string) error {
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
			if err := w.embedded(s, sf, name, at); err != nil {
				return err
			}
			continue
		}
		if name == "" {
			name = sf.Name
		}
		if err := w.member(s, sf, name, options, join(at, name)); err != nil {
			return err
		}
	}
	return nil
}

func (w *typeWalk) member(s *shape, sf reflect.StructField, name string, options []string, at string) error {
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
	sub, err := w.visit(sf.Type, at)
	if err != nil {
		return err
	}
	f := &field{name: name, header: header, tags: tags, shape: sub, omittable: len(options) > 0}
	f.required = !f.omittable && !(w.way == decoded && hasDefault(tags))
	s.fields = append(s.fields, f)
	s.byName[name] = f
	if f.required {
		s.required++
	}
	return nil
}

// embedded adds the fields of an embedded struct to the record it is in.
func (w *typeWalk) embedded(s *shape, sf reflect.StructField, name, at string) error {
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
	t, pointer := sf.Type, false
	if t.Kind() == reflect.Pointer {
		t, pointer = t.Elem(), true
	}
	if pointer && !sf.IsExported() {
		return fieldError(at, "an embedded pointer to an unexported struct cannot be decoded into")
	}
	if slices.Contains(w.inside, t) {
		return fieldError(at, "type %v is recursive, which a schema without references cannot express", t)
	}
	w.inside = append(w.inside, t)
	defer func() { w.inside = w.inside[:len(w.inside)-1] }()
	required := s.required
	if err := w.members(s, t, strings.TrimSuffix(at, sf.Name)); err != nil {
		return err
	}
	// A nil pointer drops all its members from the encoding.
	s.unproven = s.unproven || pointer && s.required > required
	return nil
}

// parseTag splits a json tag. Only what json/v2 and the inference read alike is
// allowed.
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

func join(at, name string) string {
	if at == "" {
		return name
	}
	return strings.TrimSuffix(at, ".") + "." + name
}
