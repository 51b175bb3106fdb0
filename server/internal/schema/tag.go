package schema

import (
	"cmp"
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

// A tagKeyword is a keyword of JSON Schema that a struct field may have as a tag.
type tagKeyword struct {
	types []string // JSON types of the fields that may have it; nil for all
	set   func(p *jsonschema.Schema, text string) error
	// annotates marks a keyword that says nothing about which values are valid.
	annotates bool
	inForms   bool // forms of elicitations have it as well
}

var (
	ofStrings = []string{"string"}
	ofNumbers = []string{"number", "integer"}
	ofArrays  = []string{"array"}
	ofObjects = []string{"object"}
)

// keywords are the supported tags. Those without set have values of the field's type.
var keywords = map[string]tagKeyword{
	"title":       {annotates: true, inForms: true, set: freeText(func(p *jsonschema.Schema) *string { return &p.Title })},
	"description": {annotates: true, inForms: true, set: freeText(func(p *jsonschema.Schema) *string { return &p.Description })},
	"deprecated":  {annotates: true, set: flag(func(p *jsonschema.Schema) *bool { return &p.Deprecated })},
	"readOnly":    {annotates: true, set: flag(func(p *jsonschema.Schema) *bool { return &p.ReadOnly })},
	"writeOnly":   {annotates: true, set: flag(func(p *jsonschema.Schema) *bool { return &p.WriteOnly })},

	"format":    {types: ofStrings, inForms: true, set: setFormat},
	"pattern":   {types: ofStrings, set: setPattern},
	"minLength": {types: ofStrings, inForms: true, set: count(func(p *jsonschema.Schema) **int { return &p.MinLength })},
	"maxLength": {types: ofStrings, inForms: true, set: count(func(p *jsonschema.Schema) **int { return &p.MaxLength })},

	"minimum":          {types: ofNumbers, inForms: true, set: bound(lowest, func(p *jsonschema.Schema) **float64 { return &p.Minimum })},
	"maximum":          {types: ofNumbers, inForms: true, set: bound(highest, func(p *jsonschema.Schema) **float64 { return &p.Maximum })},
	"exclusiveMinimum": {types: ofNumbers, set: bound(lowest, func(p *jsonschema.Schema) **float64 { return &p.ExclusiveMinimum })},
	"exclusiveMaximum": {types: ofNumbers, set: bound(highest, func(p *jsonschema.Schema) **float64 { return &p.ExclusiveMaximum })},
	"multipleOf":       {types: ofNumbers, set: setMultipleOf},

	"minItems":    {types: ofArrays, inForms: true, set: count(func(p *jsonschema.Schema) **int { return &p.MinItems })},
	"maxItems":    {types: ofArrays, inForms: true, set: count(func(p *jsonschema.Schema) **int { return &p.MaxItems })},
	"uniqueItems": {types: ofArrays, set: flag(func(p *jsonschema.Schema) *bool { return &p.UniqueItems })},

	"minProperties": {types: ofObjects, set: count(func(p *jsonschema.Schema) **int { return &p.MinProperties })},
	"maxProperties": {types: ofObjects, set: count(func(p *jsonschema.Schema) **int { return &p.MaxProperties })},

	enumTag:     {inForms: true},
	defaultTag:  {annotates: true, inForms: true},
	examplesTag: {annotates: true},
}

// Keywords with values of the field's type.
const (
	enumTag     = "enum"
	defaultTag  = "default"
	examplesTag = "examples"
)

// ofOwnTypeTags has these keywords in the order in which they are applied.
var ofOwnTypeTags = []string{enumTag, defaultTag, examplesTag}

// refusedKeywords are keywords of JSON Schema that cannot be a tag, with what to write
// instead.
var refusedKeywords = map[string]string{
	"required": "a field is required unless its json tag has omitempty or omitzero, or it has a default",
	"nullable": "a pointer may be null",
	"type":     "the Go type says it",
	"const":    "use enum with one choice",
	"example":  "use examples",
}

// handWrittenKeywords cannot be a tag either. They need a schema that is written by hand.
var handWrittenKeywords = []string{
	"contains", "minContains", "maxContains", "items", "prefixItems", "additionalItems", "unevaluatedItems",
	"properties", "patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames",
	"dependentRequired", "dependentSchemas", "oneOf", "anyOf", "allOf", "not", "$ref",
	"contentEncoding", "contentMediaType", "contentSchema",
}

// A tag is one key of a struct tag with its value.
type tag struct{ key, text string }

// tagsOf splits a struct tag as reflect does, and returns an error for a malformed one. The
// standard library silently ignores everything after a mistake.
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

// schemaTags returns the tags of a field that are about its schema, and an error for a tag
// that looks like one and is not supported.
func schemaTags(all reflect.StructTag) ([]tag, error) {
	tags, err := tagsOf(all)
	if err != nil {
		return nil, err
	}
	var found []tag
	for _, t := range tags {
		hint, refused := refusedKeywords[t.key]
		if slices.Contains(handWrittenKeywords, t.key) {
			hint, refused = "write the whole schema by hand", true
		}
		if refused {
			return nil, fmt.Errorf("tag %s is not supported: %s", t.key, hint)
		}
		switch known := similarKeyword(t.key); {
		case t.key == "jsonschema":
			if err := checkDescription(t.text); err != nil {
				return nil, err
			}
			t.key = "description"
		case strings.HasPrefix(t.key, "jsonschema_"):
			return nil, fmt.Errorf("tag %s is not supported: jsonschema:\"...\" is the description, and other keywords are tags of their own", t.key)
		case known == "": // a tag of another package
			continue
		case known != t.key:
			return nil, fmt.Errorf("tag %s is not supported: did you mean %s?", t.key, known)
		}
		if hasTag(found, t.key) {
			return nil, fmt.Errorf("tag %s is given twice", t.key)
		}
		found = append(found, t)
	}
	return found, nil
}

func hasTag(tags []tag, key string) bool {
	return slices.ContainsFunc(tags, func(t tag) bool { return t.key == key })
}

// similarKeyword returns the keyword that equals a key without regard to case, underscores
// and hyphens, or "".
func similarKeyword(key string) string {
	key = strings.ReplaceAll(strings.ReplaceAll(key, "_", ""), "-", "")
	for known := range keywords {
		if strings.EqualFold(known, key) {
			return known
		}
	}
	return ""
}

// checkDescription returns an error for keywords in the jsonschema tag, where other libraries
// have them.
func checkDescription(text string) error {
	if text == "" {
		return errors.New("the jsonschema tag is empty")
	}
	if i := strings.IndexAny(text, " \t\n="); i >= 0 && text[i] == '=' {
		return fmt.Errorf("jsonschema:%q: the tag is the description alone; keywords are tags of their own, such as minLength:\"1\"", clip(text, maxEcho))
	}
	return nil
}

// freeText is for keywords whose value is free text.
func freeText(field func(*jsonschema.Schema) *string) func(*jsonschema.Schema, string) error {
	return func(p *jsonschema.Schema, text string) error {
		*field(p) = text
		return nil
	}
}

// flag is for keywords whose value is true or false.
func flag(field func(*jsonschema.Schema) *bool) func(*jsonschema.Schema, string) error {
	return func(p *jsonschema.Schema, text string) error {
		if text != "true" && text != "false" {
			return errors.New("must be true or false")
		}
		*field(p) = text == "true"
		return nil
	}
}

// count is for keywords whose value counts something.
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

// A rangeEnd is one of the two ends of a range of numbers.
type rangeEnd struct {
	sign  float64 // 1 if numbers in the range are above the end, -1 if they are below
	words string
}

var (
	lowest  = rangeEnd{1, "begins at"}
	highest = rangeEnd{-1, "ends at"}
)

// bound is for keywords that bound a number. They must not widen the range of the Go type.
func bound(of rangeEnd, field func(*jsonschema.Schema) **float64) func(*jsonschema.Schema, string) error {
	return func(p *jsonschema.Schema, text string) error {
		n, err := exactNumber(text)
		if err != nil {
			return err
		}
		if has := *field(p); has != nil && of.sign*(n-*has) < 0 {
			return fmt.Errorf("the Go type %s %v", of.words, *has)
		}
		*field(p) = &n
		return nil
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

// formats are the formats that the validator checks.
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

// checkTaggedBounds returns an error for bounds that no value satisfies.
func checkTaggedBounds(p *jsonschema.Schema) error {
	return cmp.Or(
		checkOrder("minLength", p.MinLength, "maxLength", p.MaxLength, false),
		checkOrder("minItems", p.MinItems, "maxItems", p.MaxItems, false),
		checkOrder("minProperties", p.MinProperties, "maxProperties", p.MaxProperties, false),
		checkOrder("minimum", p.Minimum, "maximum", p.Maximum, false),
		checkOrder("exclusiveMinimum", p.ExclusiveMinimum, "maximum", p.Maximum, true),
		checkOrder("minimum", p.Minimum, "exclusiveMaximum", p.ExclusiveMaximum, true),
		checkOrder("exclusiveMinimum", p.ExclusiveMinimum, "exclusiveMaximum", p.ExclusiveMaximum, true),
	)
}

// checkOrder returns an error if nothing is between two bounds, which may be nil. open excludes
// the bounds themselves.
func checkOrder[T int | float64](lowTag string, low *T, highTag string, high *T, open bool) error {
	if low == nil || high == nil || *low < *high || *low == *high && !open {
		return nil
	}
	words := "leaves nothing below the"
	if _, count := any(*low).(int); count {
		words = "is more than the"
	}
	return fmt.Errorf("tag %s: %v %s %s %v", lowTag, *low, words, highTag, *high)
}
