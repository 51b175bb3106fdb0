package schema

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	jsv "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// message words one finding.
func (f finding) message(value any) string {
	switch k := f.kind.(type) {
	case *kind.Type:
		return "must be " + anyOfTypes(k.Want) + ", got " + k.Got
	case *kind.Required:
		return "missing required property " + strconv.Quote(f.name)
	case *kind.AdditionalProperties:
		return "unknown property " + named(f.name)
	case *kind.PropertyNames:
		return "property name " + named(f.name) + " is not allowed" + f.causes(value)
	case *kind.Enum:
		return "must be " + oneOfValues(k.Want)
	case *kind.Const:
		return "must be " + literal(k.Want)
	case *kind.FalseSchema:
		return "is not allowed here"
	case *kind.Not:
		return `must not match the schema under "not"`
	case *kind.AnyOf:
		return "matches none of the alternatives" + f.causes(value)
	case *kind.OneOf:
		if len(k.Subschemas) > 1 {
			return fmt.Sprintf("must match exactly one alternative, matches numbers %d and %d", k.Subschemas[0]+1, k.Subschemas[1]+1)
		}
		return "matches none of the alternatives" + f.causes(value)
	case *kind.Format:
		if k.Want == "regex" {
			return "must be a valid regular expression (RE2 syntax)"
		}
		return "must be a valid " + k.Want
	case *kind.Pattern:
		return "must match the pattern " + k.Want
	case *kind.Dependency:
		return dependent(k.Prop, k.Missing)
	case *kind.DependentRequired:
		return dependent(k.Prop, k.Missing)
	case *kind.RefCycle:
		return "cannot be validated: the schema refers to itself without end"
	}
	return cmp.Or(countMessage(f.kind), rangeMessage(f.kind), fmt.Sprintf("does not satisfy %q", strings.Join(f.kind.KeywordPath(), "/")))
}

// named reports whether the message has names of properties that came with the value.
func (f finding) named() bool {
	switch f.kind.(type) {
	case *kind.AdditionalProperties, *kind.PropertyNames, *kind.AnyOf, *kind.OneOf:
		return true
	}
	return false
}

// countMessage words the kinds that count characters, items or properties.
func countMessage(k jsv.ErrorKind) string {
	switch k := k.(type) {
	case *kind.MinLength:
		return fmt.Sprintf("must have at least %d characters, has %d", k.Want, k.Got)
	case *kind.MaxLength:
		return fmt.Sprintf("must have at most %d characters, has %d", k.Want, k.Got)
	case *kind.MinItems:
		return fmt.Sprintf("must have at least %d items, has %d", k.Want, k.Got)
	case *kind.MaxItems:
		return fmt.Sprintf("must have at most %d items, has %d", k.Want, k.Got)
	case *kind.MinProperties:
		return fmt.Sprintf("must have at least %d properties, has %d", k.Want, k.Got)
	case *kind.MaxProperties:
		return fmt.Sprintf("must have at most %d properties, has %d", k.Want, k.Got)
	case *kind.AdditionalItems:
		return fmt.Sprintf("has %d items too many", k.Count)
	case *kind.UniqueItems:
		return fmt.Sprintf("items must be unique, items %d and %d are equal", k.Duplicates[0], k.Duplicates[1])
	case *kind.Contains:
		return "has no item that matches the schema under \"contains\""
	case *kind.MinContains:
		return fmt.Sprintf("must have at least %d items that match the schema under \"contains\", has %d", k.Want, len(k.Got))
	case *kind.MaxContains:
		return fmt.Sprintf("must have at most %d items that match the schema under \"contains\", has %d", k.Want, len(k.Got))
	}
	return ""
}

// rangeMessage words the kinds that bound a number.
func rangeMessage(k jsv.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Minimum:
		return "must be at least " + decimal(k.Want)
	case *kind.Maximum:
		return "must be at most " + decimal(k.Want)
	case *kind.ExclusiveMinimum:
		return "must be greater than " + decimal(k.Want)
	case *kind.ExclusiveMaximum:
		return "must be less than " + decimal(k.Want)
	case *kind.MultipleOf:
		return "must be a multiple of " + decimal(k.Want)
	}
	return ""
}

// causes sums up why no alternative matches. Paths start at the value itself.
func (f finding) causes(value any) string {
	var texts []string
	for _, err := range f.err.Causes {
		for _, cause := range sorted(collect(nil, err, value)) {
			text := cause.message(value)
			if len(cause.at) > len(f.at) {
				text = clip(pointer(cause.at[len(f.at):]), maxEcho) + " " + text
			}
			if !slices.Contains(texts, text) {
				texts = append(texts, text)
			}
			if len(texts) == maxFaults { // more than fit into a message
				break
			}
		}
	}
	if len(texts) == 0 {
		return ""
	}
	return ": " + strings.Join(texts, "; ")
}

func dependent(because string, missing []string) string {
	return "missing property " + joined(missing, ", ", strconv.Quote) + ", required because " + strconv.Quote(because) + " is present"
}

// anyOfTypes is "an integer" or "a string or null", with null at the end.
func anyOfTypes(types []string) string {
	words := make([]string, 0, len(types))
	var null []string
	for _, t := range types {
		switch t {
		case "null":
			null = []string{t}
		case "integer", "array", "object":
			words = append(words, "an "+t)
		default:
			words = append(words, "a "+t)
		}
	}
	return strings.Join(append(words, null...), " or ")
}

func oneOfValues(values []any) string {
	if len(values) == 1 {
		return literal(values[0])
	}
	return "one of " + joined(values, ", ", literal)
}

// joined returns the words for each of several things, with sep between them.
func joined[T any](things []T, sep string, word func(T) string) string {
	words := make([]string, len(things))
	for i, thing := range things {
		words[i] = word(thing)
	}
	return strings.Join(words, sep)
}

// literal writes a value of the schema (never of the input) as JSON would.
func literal(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return strconv.Quote(v)
	case []any:
		return "the array the schema gives"
	case map[string]any:
		return "the object the schema gives"
	}
	return fmt.Sprint(v)
}

func decimal(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}
