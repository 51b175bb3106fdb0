package schema

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// A keyword is a keyword of JSON Schema that a struct field may have as a tag.
type keyword struct {
	types []string // JSON types of the fields that may have it; nil for all
	set   func(p *jsonschema.Schema, text string) error
	// annotates marks a keyword that says nothing about which values are valid.
	annotates bool
	inForms   bool // forms of elicitations have it, too
}

var (
	ofStrings = []string{"string"}
	ofNumbers = []string{"number", "integer"}
	ofArrays  = []string{"array"}
	ofObjects = []string{"object"}
)

// keywords are the tags that are understood, but for enum, default and examples, whose
// values are of the field's own type.
var keywords = map[string]keyword{
	"title":       {annotates: true, inForms: true, set: func(p *jsonschema.Schema, text string) error { p.Title = text; return nil }},
	"description": {annotates: true, inForms: true, set: setDescription},
	"deprecated":  {annotates: true, set: flag(func(p *jsonschema.Schema) *bool { return &p.Deprecated })},
	"readOnly":    {annotates: true, set: flag(func(p *jsonschema.Schema) *bool { return &p.ReadOnly })},
	"writeOnly":   {annotates: true, set: flag(func(p *jsonschema.Schema) *bool { return &p.WriteOnly })},

	"format":    {types: ofStrings, inForms: true, set: setFormat},
	"pattern":   {types: ofStrings, set: setPattern},
	"minLength": {types: ofStrings, inForms: true, set: count(func(p *jsonschema.Schema) **int { return &p.MinLength })},
	"maxLength": {types: ofStrings, inForms: true, set: count(func(p *jsonschema.Schema) **int { return &p.MaxLength })},

	"minimum":          {types: ofNumbers, inForms: true, set: setMinimum},
	"maximum":          {types: ofNumbers, inForms: true, set: setMaximum},
	"exclusiveMinimum": {types: ofNumbers, set: number(func(p *jsonschema.Schema) **float64 { return &p.ExclusiveMinimum })},
	"exclusiveMaximum": {types: ofNumbers, set: number(func(p *jsonschema.Schema) **float64 { return &p.ExclusiveMaximum })},
	"multipleOf":       {types: ofNumbers, set: setMultipleOf},

	"minItems":    {types: ofArrays, inForms: true, set: count(func(p *jsonschema.Schema) **int { return &p.MinItems })},
	"maxItems":    {types: ofArrays, inForms: true, set: count(func(p *jsonschema.Schema) **int { return &p.MaxItems })},
	"uniqueItems": {types: ofArrays, set: flag(func(p *jsonschema.Schema) *bool { return &p.UniqueItems })},

	"minProperties": {types: ofObjects, set: count(func(p *jsonschema.Schema) **int { return &p.MinProperties })},
	"maxProperties": {types: ofObjects, set: count(func(p *jsonschema.Schema) **int { return &p.MaxProperties })},
}

// Keywords with values of the field's own type.
const (
	enumTag     = "enum"
	defaultTag  = "default"
	examplesTag = "examples"
)

// ofOwnTypeTags are these in the order in which they are read.
var ofOwnTypeTags = []string{enumTag, defaultTag, examplesTag}

// refusedKeywords are those that look like JSON Schema and cannot be a tag, with what to
// write instead.
var refusedKeywords = map[string]string{
	"required":              "a field is required unless its json tag has omitempty or omitzero, or it has a default",
	"nullable":              "a pointer may be null",
	"type":                  "the Go type says it",
	"const":                 "use enum with one choice",
	"example":               "use examples",
	"minContains":           handWritten,
	"maxContains":           handWritten,
	"contains":              handWritten,
	"items":                 handWritten,
	"prefixItems":           handWritten,
	"additionalItems":       handWritten,
	"unevaluatedItems":      handWritten,
	"properties":            handWritten,
	"patternProperties":     handWritten,
	"additionalProperties":  handWritten,
	"unevaluatedProperties": handWritten,
	"propertyNames":         handWritten,
	"dependentRequired":     handWritten,
	"dependentSchemas":      handWritten,
	"oneOf":                 handWritten,
	"anyOf":                 handWritten,
	"allOf":                 handWritten,
	"not":                   handWritten,
	"$ref":                  handWritten,
	"contentEncoding":       handWritten,
	"contentMediaType":      handWritten,
	"contentSchema":         handWritten,
}

const handWritten = "write the whole schema by hand"

// A tag is one key of a struct tag with its value.
type tag struct{ key, text string }

// tagsOf splits a struct tag as reflect does, but says when that is not possible: the
// standard library silently ignores all that follows a mistake.
func tagsOf(all reflect.StructTag) ([]tag, error) {
	var tags []tag
	for rest := strings.TrimLeft(string(all), " "); rest != ""; rest = strings.TrimLeft(rest, " ") {
		key, value, ok := strings.Cut(rest, ":")
		quoted, err := strconv.QuotedPrefix(value)
		if !ok || key == "" || strings.ContainsAny(key, "\" ") || err != nil {
			return nil, fmt.Errorf("the struct tag is malformed at %s: each key is followed by a colon and a quoted text", clip(rest, maxEcho))
		}
		text, err := strconv.Unquote(quoted)
		if err != nil {
			return nil, fmt.Errorf("the struct tag is malformed at %s: %w", clip(rest, maxEcho), err)
		}
		tags = append(tags, tag{key, text})
		rest = value[len(quoted):]
	}
	return tags, nil
}

// schemaTags returns those tags of a field that are about its schema, and an error for
// one that looks so and is not understood.
func schemaTags(all reflect.StructTag) ([]tag, error) {
	tags, err := tagsOf(all)
	if err != nil {
		return nil, err
	}
	var found []tag
	for _, t := range tags {
		if hint, refused := refusedKeywords[t.key]; refused {
			return nil, fmt.Errorf("tag %s is not supported: %s", t.key, hint)
		}
		switch known := similarKeyword(t.key); {
		case t.key == "jsonschema":
			if err := checkDescription(t.text); err != nil {
				return nil, err
			}
			found = append(found, tag{"description", t.text})
		case strings.HasPrefix(t.key, "jsonschema_"):
			return nil, fmt.Errorf("tag %s is not supported: jsonschema:\"...\" is the description, and other keywords are tags of their own", t.key)
		case known == t.key:
			found = append(found, t)
		case known != "":
			return nil, fmt.Errorf("tag %s is not supported: did you mean %s?", t.key, known)
		}
	}
	for i, t := range found {
		for _, other := range found[:i] {
			if other.key == t.key {
				return nil, fmt.Errorf("tag %s is given twice", t.key)
			}
		}
	}
	return found, nil
}

func hasDefault(tags []tag) bool {
	for _, t := range tags {
		if t.key == defaultTag {
			return true
		}
	}
	return false
}

// similarKeyword returns the keyword that a key is, whatever its case and however its
// words are separated; "" if it is none.
func similarKeyword(key string) string {
	key = strings.ReplaceAll(strings.ReplaceAll(key, "_", ""), "-", "")
	for known := range keywords {
		if strings.EqualFold(known, key) {
			return known
		}
	}
	for _, known := range ofOwnTypeTags {
		if strings.EqualFold(known, key) {
			return known
		}
	}
	return ""
}

// checkDescription refuses keywords in the jsonschema tag, where other libraries have them.
func checkDescription(text string) error {
	if text == "" {
		return errors.New("the jsonschema tag is empty")
	}
	if i := strings.IndexAny(text, " \t\n="); i >= 0 && text[i] == '=' {
		return fmt.Errorf("jsonschema:%q: the tag is the description alone; keywords are tags of their own, such as minLength:\"1\"", clip(text, maxEcho))
	}
	return nil
}

func setDescription(p *jsonschema.Schema, text string) error {
	p.Description = text
	return nil
}

// flag is for keywords that are true or false.
func flag(field func(*jsonschema.Schema) *bool) func(*jsonschema.Schema, string) error {
	return func(p *jsonschema.Schema, text string) error {
		if text != "true" && text != "false" {
			return errors.New("must be true or false")
		}
		*field(p) = text == "true"
		return nil
	}
}

// count is for keywords that are a number of things.
func count(field func(*jsonschema.Schema) **int) func(*jsonschema.Schema, string) error {
	return func(p *jsonschema.Schema, text string) error {
		n, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			return errors.New("must be an integer that is not negative")
		}
		if *field(p) != nil {
			return fmt.Errorf("the Go type has %d already", **field(p))
		}
		*field(p) = jsonschema.Ptr(int(n))
		return nil
	}
}

// number is for keywords that are a number.
func number(field func(*jsonschema.Schema) **float64) func(*jsonschema.Schema, string) error {
	return func(p *jsonschema.Schema, text string) error {
		n, err := exactNumber(text)
		if err == nil {
			*field(p) = &n
		}
		return err
	}
}

// exactNumber reads a number that a schema can repeat digit for digit.
func exactNumber(text string) (float64, error) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(n, 0) || math.IsNaN(n) {
		return 0, errors.New("must be a number")
	}
	want, ok := new(big.Rat).SetString(text)
	got, _ := new(big.Rat).SetString(strconv.FormatFloat(n, 'g', -1, 64))
	if !ok || got.Cmp(want) != 0 {
		return 0, errors.New("must be a number that a float64 holds exactly")
	}
	return n, nil
}

func setMinimum(p *jsonschema.Schema, text string) error {
	n, err := exactNumber(text)
	if err == nil && p.Minimum != nil && n < *p.Minimum {
		err = fmt.Errorf("the Go type begins at %v", *p.Minimum)
	}
	if err == nil {
		p.Minimum = &n
	}
	return err
}

func setMaximum(p *jsonschema.Schema, text string) error {
	n, err := exactNumber(text)
	if err == nil && p.Maximum != nil && n > *p.Maximum {
		err = fmt.Errorf("the Go type ends at %v", *p.Maximum)
	}
	if err == nil {
		p.Maximum = &n
	}
	return err
}

func setMultipleOf(p *jsonschema.Schema, text string) error {
	n, err := exactNumber(text)
	if err == nil && n <= 0 {
		err = errors.New("must be greater than 0")
	}
	p.MultipleOf = &n
	return err
}

func setPattern(p *jsonschema.Schema, text string) error {
	if _, err := regexp.Compile(text); err != nil {
		return fmt.Errorf("is not a regular expression (RE2): %w", err)
	}
	p.Pattern = text
	return nil
}

// formats are those that the validator holds values to.
var formats = []string{
	"date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "iri", "iri-reference", "json-pointer",
	"regex", "relative-json-pointer", "time", "uri", "uri-reference", "uri-template", "uuid",
}

func setFormat(p *jsonschema.Schema, text string) error {
	if !slices.Contains(formats, text) {
		return fmt.Errorf("is not known: there are %s", strings.Join(formats, ", "))
	}
	if p.Format != "" && p.Format != text {
		return fmt.Errorf("the Go type has the format %s", p.Format)
	}
	p.Format = text
	return nil
}

// checkTaggedBounds refuses bounds that no value can be within.
func checkTaggedBounds(p *jsonschema.Schema) error {
	for _, b := range []struct {
		low, high       *int
		lowTag, highTag string
	}{
		{p.MinLength, p.MaxLength, "minLength", "maxLength"},
		{p.MinItems, p.MaxItems, "minItems", "maxItems"},
		{p.MinProperties, p.MaxProperties, "minProperties", "maxProperties"},
	} {
		if b.low != nil && b.high != nil && *b.low > *b.high {
			return fmt.Errorf("tag %s: %d is more than the %s %d", b.lowTag, *b.low, b.highTag, *b.high)
		}
	}
	for _, b := range []struct {
		low, high       *float64
		lowTag, highTag string
		open            bool
	}{
		{p.Minimum, p.Maximum, "minimum", "maximum", false},
		{p.ExclusiveMinimum, p.Maximum, "exclusiveMinimum", "maximum", true},
		{p.Minimum, p.ExclusiveMaximum, "minimum", "exclusiveMaximum", true},
		{p.ExclusiveMinimum, p.ExclusiveMaximum, "exclusiveMinimum", "exclusiveMaximum", true},
	} {
		if b.low != nil && b.high != nil && (*b.low > *b.high || b.open && *b.low == *b.high) {
			return fmt.Errorf("tag %s: %v leaves nothing below the %s %v", b.lowTag, *b.low, b.highTag, *b.high)
		}
	}
	return nil
}
