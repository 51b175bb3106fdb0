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
	"github.com/google/jsonschema-go/jsonschema"
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
// are checked.
func ParseForm(raw jsontext.Value) (s *Schema, err error) {
	defer wrap(&err, "schema of a form")
	return compileForm(raw)
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
	return compile(raw, fromForm)
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

// FormFor infers the form of a struct. Clients show the fields in the order of the struct.
// Fields with omitempty or omitzero may be left empty. A field is a bool, an integer, a float,
// a string, a [time.Time], a type with text methods, or a []string with an enum. These tags
// of [For] are supported, as the protocol has them in forms:
//
//	jsonschema:"..."         its description
//	title:"..."              its name for people
//	enum:"a,b,c"             the choices of a string or of a []string
//	format:"email"           of a string: email, uri, date or date-time
//	minLength, maxLength     of a string
//	minimum, maximum         of a number
//	minItems, maxItems       of a []string
//	default:"..."            the value that the client shows at first
//
// For a type that is not a flat form FormFor returns an error that names the field. A default
// is for the client: a field that the user leaves empty has the Go zero value.
func FormFor(t reflect.Type) (s *Schema, err error) {
	defer wrap(&err, "form of %v", t)
	sh, err := newInference(encoded).shapeOf(t, "")
	if err != nil {
		return nil, err
	}
	if sh.kind != record || sh.nullable {
		return nil, errors.New("a form is a struct")
	}
	root := struct {
		Type       string         `json:"type"`
		Properties jsontext.Value `json:"properties"`
		Required   []string       `json:"required,omitempty"`
	}{Type: "object", Properties: jsontext.Value("{")}
	for i, f := range sh.fields {
		if i > 0 {
			root.Properties = append(root.Properties, ',')
		}
		if root.Properties, err = f.appendProperty(root.Properties); err != nil {
			return nil, fieldError(f.name, "%w", err)
		}
		if f.required {
			root.Required = append(root.Required, f.name)
		}
	}
	root.Properties = append(root.Properties, '}')
	raw, err := json.Marshal(root)
	if err != nil {
		return nil, err
	}
	if s, err = compileForm(raw); err != nil {
		return nil, err
	}
	s.target, s.shape = reflect.PointerTo(t), sh
	return s, nil
}

// A formProperty is one field of a form. Its members are in the order in which people read them.
type formProperty struct {
	Type        string         `json:"type"`
	Title       string         `json:"title,omitempty"`
	Description string         `json:"description,omitempty"`
	Format      string         `json:"format,omitempty"`
	MinLength   *int           `json:"minLength,omitzero"`
	MaxLength   *int           `json:"maxLength,omitzero"`
	Minimum     *float64       `json:"minimum,omitzero"`
	Maximum     *float64       `json:"maximum,omitzero"`
	MinItems    *int           `json:"minItems,omitzero"`
	MaxItems    *int           `json:"maxItems,omitzero"`
	Enum        []any          `json:"enum,omitempty"`
	Items       *formChoices   `json:"items,omitzero"`
	Default     jsontext.Value `json:"default,omitzero"`
}

type formChoices struct {
	Type string `json:"type"`
	Enum []any  `json:"enum"`
}

// appendProperty appends a field as a member of the form's properties.
func (f *field) appendProperty(to []byte) ([]byte, error) {
	bare, err := bareProperty(f.shape)
	if err != nil {
		return nil, err
	}
	if _, err := f.applyTags(bare, fromForm); err != nil {
		return nil, err
	}
	if bare.Format != "" && !slices.Contains(formFormats, bare.Format) {
		return nil, fmt.Errorf("format %q: a string may have %s", bare.Format, strings.Join(formFormats, ", "))
	}
	p := formProperty{
		Type: bare.Type, Title: bare.Title, Description: bare.Description, Format: bare.Format,
		MinLength: bare.MinLength, MaxLength: bare.MaxLength, Minimum: bare.Minimum, Maximum: bare.Maximum,
		MinItems: bare.MinItems, MaxItems: bare.MaxItems, Enum: bare.Enum, Default: jsontext.Value(bare.Default),
	}
	if bare.Items != nil {
		if bare.Items.Enum == nil {
			return nil, errors.New("a list of a form needs an enum to choose from")
		}
		p.Items = &formChoices{bare.Items.Type, bare.Items.Enum}
	}
	raw, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	if to, err = jsontext.AppendQuote(to, f.name); err != nil {
		return nil, err
	}
	return append(append(to, ':'), raw...), nil
}

// bareProperty returns the schema of a type that fits into a form. It does not allow null:
// a field that the user leaves empty is missing.
func bareProperty(sh *shape) (*jsonschema.Schema, error) {
	isString := func(s *shape) bool { return s.kind == scalar && s.typ.Kind() == reflect.String }
	switch {
	case sh.kind == instant:
		return &jsonschema.Schema{Type: "string", Format: "date-time"}, nil
	case sh.kind == integer:
		return jsonschema.ForType(sh.typ, nil) // with its range
	case sh.kind == scalar, sh.kind == text && !isBase64(sh.typ):
		return &jsonschema.Schema{Type: sh.jsonType()}, nil
	case sh.kind == list && isString(sh.elem):
		return &jsonschema.Schema{Type: "array", Items: &jsonschema.Schema{Type: "string"}}, nil
	}
	return nil, fmt.Errorf("type %v does not fit into a form", sh.typ)
}
