package schema

import (
	"encoding/json" // for RawMessage, which is how the inference takes values as they are
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
)

// A tagged is what the tags of a field have made of its schema.
type tagged struct {
	// binds says that not all values of the Go type satisfy the schema any more.
	binds bool
	// preset is the default, or nil.
	preset jsontext.Value
}

// applyTags adds what the tags of a field say to the schema p of its Go type. The schemas
// of tools and of forms take the same tags, and forms fewer of them.
func (f *field) applyTags(p *jsonschema.Schema, from origin) (got tagged, err error) {
	ofOwnType := map[string]tag{}
	for _, t := range f.tags {
		k, ok := keywords[t.key]
		if !ok {
			ofOwnType[t.key] = t
			continue
		}
		if err := f.checkFits(t.key, k, from); err != nil {
			return got, err
		}
		if err := k.set(p, t.text); err != nil {
			return got, fmt.Errorf("tag %s:%q: %w", t.key, t.text, err)
		}
		got.binds = got.binds || !k.annotates
	}
	if err := checkTaggedBounds(p); err != nil {
		return got, err
	}
	// Choices come first: the default and the examples are held against them.
	for _, key := range ofOwnTypeTags {
		t, given := ofOwnType[key]
		if !given {
			continue
		}
		switch key {
		case enumTag:
			got.binds = true
			err = f.choices(p, t, from)
		case defaultTag:
			got.preset, err = f.defaultOf(p, t, from)
		case examplesTag:
			err = f.examples(p, t, from)
		}
		if err != nil {
			return got, fmt.Errorf("tag %s: %w", t.key, err)
		}
	}
	return got, nil
}

// checkFits refuses a tag that says nothing about values of the field's type.
func (f *field) checkFits(key string, k keyword, from origin) error {
	if from == elicited && !k.inForms {
		return fmt.Errorf("tag %s is not supported: it is no part of a form", key)
	}
	if k.types == nil {
		return nil
	}
	typ := f.shape.jsonType()
	if slices.Contains(k.types, typ) && !isBase64(f.shape.typ) {
		return nil
	}
	what := "which is " + typ
	switch {
	case f.shape.kind == anything:
		what = "of which nothing is known"
	case isBase64(f.shape.typ):
		what = "which is base64"
	}
	return fmt.Errorf("tag %s does not fit the type %v, %s: it is for %s", key, f.shape.typ, what, strings.Join(k.types, " and "))
}

// jsonType is the JSON type of a shape but for null, or "".
func (s *shape) jsonType() string {
	switch s.kind {
	case text, instant:
		return "string"
	case integer:
		return "integer"
	case list:
		return "array"
	case dict, record:
		return "object"
	case scalar:
		switch s.typ.Kind() {
		case reflect.String:
			return "string"
		case reflect.Bool:
			return "boolean"
		}
		return "number"
	}
	return ""
}

// choices reads the enum tag: the values that a field, or each item of a list, may have.
func (f *field) choices(p *jsonschema.Schema, t tag, from origin) error {
	sh := f.shape
	if sh.kind == list {
		sh, p = sh.elem, p.Items
	}
	if typ := sh.jsonType(); typ == "" || typ == "array" || typ == "object" || isBase64(sh.typ) {
		return fmt.Errorf("does not fit the type %v: strings, numbers and booleans, and lists of them, have choices", f.shape.typ)
	}
	if from == elicited && sh.jsonType() != "string" {
		return errors.New("only strings and lists of strings have choices in a form")
	}
	if from == elicited && p.Format != "" {
		return errors.New("only strings without a format have choices in a form")
	}
	values, err := sh.values(t.text)
	if err != nil {
		return err
	}
	for i, v := range values {
		for _, other := range values[:i] {
			if string(other) == string(v) {
				return fmt.Errorf("the choice %s is there twice", v)
			}
		}
		if err := sh.checkValue(p, v, from); err != nil {
			return fmt.Errorf("the choice %s %w", v, err)
		}
	}
	for _, v := range values {
		p.Enum = append(p.Enum, json.RawMessage(v))
	}
	if sh.nullable && from != elicited {
		p.Enum = append(p.Enum, nil)
	}
	return nil
}

// defaultOf reads the default tag and holds it against the schema and the Go type.
func (f *field) defaultOf(p *jsonschema.Schema, t tag, from origin) (jsontext.Value, error) {
	v, err := f.shape.value(t.text)
	if err == nil {
		err = f.shape.checkValue(p, v, from)
	}
	if err != nil {
		return nil, fmt.Errorf("default %q %w", t.text, err)
	}
	p.Default = json.RawMessage(v)
	return v, nil
}

// examples reads the examples tag: a list of values, or of one JSON array of them for
// types that are no scalars.
func (f *field) examples(p *jsonschema.Schema, t tag, from origin) error {
	if from == elicited {
		return errors.New("is not supported: it is no part of a form")
	}
	values, err := f.shape.values(t.text)
	if err != nil {
		return err
	}
	for _, v := range values {
		if err := f.shape.checkValue(p, v, from); err != nil {
			return fmt.Errorf("the example %s %w", v, err)
		}
	}
	for _, v := range values {
		p.Examples = append(p.Examples, json.RawMessage(v))
	}
	return nil
}

// values reads a list of values: separated by commas if they are scalars, else a JSON
// array.
func (s *shape) values(text string) ([]jsontext.Value, error) {
	var values []jsontext.Value
	if typ := s.jsonType(); typ == "" || typ == "array" || typ == "object" {
		if err := jsonv2.Unmarshal([]byte(text), &values); err != nil {
			return nil, fmt.Errorf("%q is not a JSON array of values", clip(text, maxEcho))
		}
		return values, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		switch {
		case part == "":
			return nil, fmt.Errorf("%q has an empty choice", clip(text, maxEcho))
		case strings.TrimSpace(part) != part:
			return nil, fmt.Errorf("%q has a space before or after a comma: values are separated by commas alone", clip(text, maxEcho))
		}
		v, err := s.value(part)
		if err != nil {
			return nil, fmt.Errorf("%q %w", clip(part, maxEcho), err)
		}
		values = append(values, v)
	}
	return values, nil
}

// value reads one value: text as it is for strings, a list of scalars separated by
// commas, and JSON for all else.
func (s *shape) value(text string) (jsontext.Value, error) {
	switch typ := s.jsonType(); {
	case typ == "string":
		v, _ := jsontext.AppendQuote(nil, text) // a tag that is no UTF-8 gets U+FFFD
		return v, nil
	case typ == "array" && !strings.HasPrefix(text, "["):
		items, err := s.elem.values(text)
		if err != nil {
			return nil, fmt.Errorf("is not a list: %w", err)
		}
		return jsonv2.Marshal(items)
	}
	v := jsontext.Value(text)
	if !v.IsValid() {
		return nil, errors.New("is not valid JSON")
	}
	return v, v.Compact()
}

// checkValue holds a value against the schema so far and against the Go type.
func (s *shape) checkValue(p *jsonschema.Schema, v jsontext.Value, from origin) error {
	raw, err := p.MarshalJSON()
	if err != nil {
		return err
	}
	sch, err := compile(raw, from)
	if err != nil {
		return err
	}
	if faults := sch.Validate(v); len(faults) > 0 {
		return errors.New(faults[0].String())
	}
	if err := jsonv2.Unmarshal(s.plainIntegers(v), reflect.New(s.typ).Interface()); err != nil && v.Kind() != 'n' {
		return fmt.Errorf("is not accepted by %v: %w", s.typ, err)
	}
	return nil
}
