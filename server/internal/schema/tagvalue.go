package schema

import (
	"context"
	"encoding/json" // for RawMessage, the form in which jsonschema-go takes JSON values
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/jsonschema-go/jsonschema"
)

// A tagged says what the tags of a field have changed in its schema.
type tagged struct {
	// binds is true if some values of the Go type no longer satisfy the schema.
	binds bool
	// preset is the default. May be nil.
	preset jsontext.Value
}

// applyTags adds the tags of a field to the schema p of its Go type. Forms support a part of
// the tags that tools support.
func (f *field) applyTags(p *jsonschema.Schema, from origin) (got tagged, err error) {
	ofOwnType := map[string]tag{}
	for _, t := range f.tags {
		k := keywords[t.key]
		if k.set == nil {
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
	// Choices come first, because the default and the examples must be among them.
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

// checkFits returns an error for a tag that does not apply to values of the field's type.
func (f *field) checkFits(key string, k tagKeyword, from origin) error {
	if from == fromForm && !k.inForms {
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

// choices reads the enum tag: the values that a field, or each item of a list, may have.
func (f *field) choices(p *jsonschema.Schema, t tag, from origin) error {
	sh := f.shape
	if sh.kind == list {
		sh, p = sh.elem, p.Items
	}
	if !sh.isScalar() || isBase64(sh.typ) {
		return fmt.Errorf("does not fit the type %v: strings, numbers and booleans, and lists of them, have choices", f.shape.typ)
	}
	if from == fromForm && sh.jsonType() != "string" {
		return errors.New("only strings and lists of strings have choices in a form")
	}
	if from == fromForm && p.Format != "" {
		return errors.New("only strings without a format have choices in a form")
	}
	values, err := sh.values(t.text)
	if err != nil {
		return err
	}
	for i, v := range values {
		if slices.ContainsFunc(values[:i], func(other jsontext.Value) bool { return string(other) == string(v) }) {
			return fmt.Errorf("the choice %s is there twice", v)
		}
		if err := sh.checkValue(p, v, from); err != nil {
			return fmt.Errorf("the choice %s %w", v, err)
		}
	}
	for _, v := range values {
		p.Enum = append(p.Enum, json.RawMessage(v))
	}
	if sh.nullable && from != fromForm {
		p.Enum = append(p.Enum, nil)
	}
	return nil
}

// defaultOf reads the default tag and checks it against the schema and the Go type.
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

// examples reads the examples tag: a list of values, or one JSON array of values for types
// that are not scalars.
func (f *field) examples(p *jsonschema.Schema, t tag, from origin) error {
	if from == fromForm {
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
		p.Examples = append(p.Examples, json.RawMessage(v))
	}
	return nil
}

// values reads several values: a list with commas if they are scalars, otherwise a JSON
// array.
func (s *shape) values(text string) ([]jsontext.Value, error) {
	var values []jsontext.Value
	if !s.isScalar() {
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

// value reads one value: text as it is for strings, a list of scalars with commas between
// them, and JSON for all other types.
func (s *shape) value(text string) (jsontext.Value, error) {
	switch typ := s.jsonType(); {
	case typ == "string":
		v, _ := jsontext.AppendQuote(nil, text) // U+FFFD replaces what is not UTF-8
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

// checkValue checks a value against the schema so far and against the Go type.
func (s *shape) checkValue(p *jsonschema.Schema, v jsontext.Value, from origin) error {
	raw, err := p.MarshalJSON()
	if err != nil {
		return err
	}
	sch, err := compile(raw, from)
	if err != nil {
		return err
	}
	faults, err := sch.Validate(context.Background(), math.MaxInt, v)
	if err != nil {
		return err
	}
	if len(faults) > 0 {
		return errors.New(faults[0].String())
	}
	whole, _ := s.completed(v, nil)
	if err := jsonv2.Unmarshal(whole, reflect.New(s.typ).Interface()); err != nil && v.Kind() != 'n' {
		return fmt.Errorf("is not accepted by %v: %w", s.typ, err)
	}
	return nil
}
