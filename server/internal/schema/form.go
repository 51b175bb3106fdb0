package schema

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Keywords of the schema of a form (spec section "Elicitation", requested schema).
var (
	formKeywords     = []string{"$schema", "type", "title", "description", "properties", "required", "additionalProperties"}
	formFormats      = []string{"email", "uri", "date", "date-time"}
	formPropertyType = []any{"string", "number", "integer", "boolean", "array"}
)

// ParseForm compiles the schema of an elicitation's form: an object whose properties
// are strings, numbers, booleans, choices of one or choices of several. Anything
// else is an error, because clients show such a form wrongly or not at all. Formats
// are asserted.
func ParseForm(raw jsontext.Value) (*Schema, error) {
	s, err := compileForm(raw)
	if err != nil {
		return nil, fmt.Errorf("schema of a form: %w", err)
	}
	return s, nil
}

func compileForm(raw jsontext.Value) (*Schema, error) {
	doc, at, err := parseValue(raw, MaxDepth)
	if err != nil {
		return nil, fmt.Errorf("at %q: %w", at, err)
	}
	object, ok := doc.(map[string]any)
	if !ok || object["type"] != "object" {
		return nil, errors.New(`the root must have "type": "object"`)
	}
	for keyword := range object {
		if !slices.Contains(formKeywords, keyword) {
			return nil, fmt.Errorf("%q is no keyword of a form", clip(keyword, maxEcho))
		}
	}
	properties, ok := object["properties"].(map[string]any)
	if !ok {
		return nil, errors.New(`the root must have "properties"`)
	}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if err := checkFormProperty(properties[name]); err != nil {
			return nil, fieldError(clip(name, maxEcho), "%w", err)
		}
	}
	return compile(raw, elicited)
}

// checkFormProperty checks that a property is flat.
func checkFormProperty(node any) error {
	property, ok := node.(map[string]any)
	if !ok || !slices.Contains(formPropertyType, property["type"]) {
		return errors.New("must be a string, a number, an integer, a boolean, or an array of choices")
	}
	if property["type"] == "array" {
		items, _ := property["items"].(map[string]any)
		if _, plain := items["enum"].([]any); plain {
			return nil
		}
		if _, titled := items["anyOf"].([]any); titled {
			return nil
		}
		return errors.New("an array of a form holds choices: its items have enum or anyOf")
	}
	for _, nested := range []string{"properties", "items", "$ref", "anyOf", "allOf", "not"} {
		if _, there := property[nested]; there {
			return fmt.Errorf("%q does not fit into a form", nested)
		}
	}
	return nil
}

// FormFor infers the form of a struct: its fields in their order, which is the one
// in which clients show them. Fields with omitempty or omitzero may be left empty. A
// field is a bool, an integer, a float, a string, a [time.Time], a type with text
// methods, or a []string with an enum. Tags say more about it:
//
//	jsonschema:"..."  its description
//	title:"..."       its name for people
//	enum:"a,b,c"      the choices of a string or of a []string
//	format:"email"    of a string: email, uri, date or date-time
//	default:"..."     what stands in the field before the user touches it
//
// A type that is no flat form is an error that names the field.
func FormFor(t reflect.Type) (*Schema, error) {
	s, err := inferForm(t)
	if err != nil {
		return nil, fmt.Errorf("form of %v: %w", t, err)
	}
	return s, nil
}

func inferForm(t reflect.Type) (*Schema, error) {
	sh, err := shapeOf(t)
	if err != nil {
		return nil, err
	}
	if sh.kind != record || sh.nullable {
		return nil, errors.New("a form is a struct")
	}
	properties, required := []byte("{"), []string{}
	for i, f := range sh.fields {
		p, err := formProperty(f)
		if err != nil {
			return nil, fieldError(f.name, "%w", err)
		}
		raw, err := json.Marshal(p)
		if err != nil {
			return nil, fieldError(f.name, "%w", err)
		}
		if i > 0 {
			properties = append(properties, ',')
		}
		if properties, err = jsontext.AppendQuote(properties, f.name); err != nil {
			return nil, fieldError(f.name, "%w", err)
		}
		properties = append(append(properties, ':'), raw...)
		if f.required {
			required = append(required, f.name)
		}
	}
	raw, err := json.Marshal(struct {
		Type       string         `json:"type"`
		Properties jsontext.Value `json:"properties"`
		Required   []string       `json:"required,omitempty"`
	}{"object", append(properties, '}'), required})
	if err != nil {
		return nil, err
	}
	s, err := compileForm(raw)
	if err != nil {
		return nil, err
	}
	s.target, s.shape = reflect.PointerTo(t), sh
	return s, nil
}

// A property is one field of a form.
type property struct {
	Type        string         `json:"type"`
	Title       string         `json:"title,omitempty"`
	Description string         `json:"description,omitempty"`
	Format      string         `json:"format,omitempty"`
	Minimum     *int64         `json:"minimum,omitzero"`
	Maximum     *int64         `json:"maximum,omitzero"`
	Enum        []string       `json:"enum,omitempty"`
	Items       *choices       `json:"items,omitzero"`
	Default     jsontext.Value `json:"default,omitzero"`
}

type choices struct {
	Type string   `json:"type"`
	Enum []string `json:"enum"`
}

func formProperty(f *field) (p property, err error) {
	sh := f.shape
	p = property{Title: f.tag.Get("title"), Description: f.tag.Get("jsonschema"), Format: f.tag.Get("format")}
	switch {
	case sh.kind == scalar && sh.typ.Kind() == reflect.Bool:
		p.Type = "boolean"
	case sh.kind == scalar && sh.typ.Kind() != reflect.String:
		p.Type = "number"
	case sh.kind == integer:
		p.Type = "integer"
		p.Minimum, p.Maximum = formRange(sh.typ)
	case sh.kind == scalar, sh.kind == text && !isBase64(sh.typ):
		p.Type = "string"
	case sh.kind == instant:
		p.Type, p.Format = "string", "date-time"
	case sh.kind == list && sh.elem.kind == scalar && sh.elem.typ.Kind() == reflect.String:
		p.Type = "array"
	default:
		return p, fmt.Errorf("type %v does not fit into a form", sh.typ)
	}
	if p.Format != "" && (p.Type != "string" || !slices.Contains(formFormats, p.Format)) {
		return p, fmt.Errorf("format %q: a string may have %s", p.Format, strings.Join(formFormats, ", "))
	}
	if err := p.choose(f.tag); err != nil {
		return p, err
	}
	return p, p.preset(f.tag)
}

// choose reads the enum tag.
func (p *property) choose(tag reflect.StructTag) error {
	list, given := tag.Lookup("enum")
	enum := strings.Split(list, ",")
	switch {
	case !given && p.Type == "array":
		return errors.New("a list of a form needs an enum to choose from")
	case !given:
		return nil
	case slices.Contains(enum, ""):
		return errors.New("the enum tag has an empty choice")
	case p.Type == "string" && p.Format == "":
		p.Enum = enum
	case p.Type == "array":
		p.Items = &choices{"string", enum}
	default:
		return errors.New("only strings and lists of strings have choices")
	}
	return nil
}

// preset reads the default tag and holds it against the property.
func (p *property) preset(tag reflect.StructTag) error {
	text, given := tag.Lookup("default")
	if !given {
		return nil
	}
	value := jsontext.Value(text)
	switch p.Type {
	case "string":
		value, _ = jsontext.AppendQuote(nil, text) // a tag that is no UTF-8 gets U+FFFD
	case "array":
		var err error
		if value, err = json.Marshal(strings.Split(text, ",")); err != nil {
			return err
		}
	}
	raw, err := json.Marshal(p)
	if err != nil {
		return err
	}
	s, err := compile(raw, elicited)
	if err != nil {
		return err
	}
	if faults := s.Validate(value); len(faults) > 0 {
		return fmt.Errorf("default %q %s", text, faults[0])
	}
	p.Default = value
	return nil
}

// formRange is the range of an integer kind, as far as every client can compute with it.
func formRange(t reflect.Type) (minimum, maximum *int64) {
	bits := t.Bits()
	switch t.Kind() {
	case reflect.Int8, reflect.Int16, reflect.Int32:
		return new(int64(-1) << (bits - 1)), new(int64(1)<<(bits-1) - 1)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return new(int64(0)), new(int64(1)<<bits - 1)
	case reflect.Uint, reflect.Uint64, reflect.Uintptr:
		return new(int64(0)), nil
	}
	return nil, nil
}

// isBase64 tells bytes from types with text methods.
func isBase64(t reflect.Type) bool {
	k := t.Kind()
	return (k == reflect.Slice || k == reflect.Array) && isBytes(t) &&
		!implements(t, textMarshalers) && !implements(t, textUnmarshaler)
}
