package schema

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/vitrine-mcp/vitrine/server/internal/schema/evaluate"
)

// countMessage words the kinds that count characters, items or properties.
func countMessage(k any) string {
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
	case *evaluate.Contained:
		bound := "least"
		if k.AtMost {
			bound = "most"
		}
		return fmt.Sprintf("must have at %s %d items that match the schema under \"contains\", has %d", bound, k.Want, k.Got)
	}
	return ""
}

// rangeMessage words the kinds that bound a number.
func rangeMessage(k any) string {
	switch k := k.(type) {
	case *kind.Minimum:
		return "must be at least " + numeral(k.Want)
	case *kind.Maximum:
		return "must be at most " + numeral(k.Want)
	case *kind.ExclusiveMinimum:
		return "must be greater than " + numeral(k.Want)
	case *kind.ExclusiveMaximum:
		return "must be less than " + numeral(k.Want)
	case *kind.MultipleOf:
		return "must be a multiple of " + numeral(k.Want)
	}
	return ""
}

func dependent(because string, missing []string) string {
	return "missing property " + joined(missing, ", ", quoted) + ", required because " + quoted(because) + " is present"
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

// maxMessageBytes is more than a message has room for. A schema may have thousands of values in an
// enum, or long texts: the words of a fault end here, before [fault] cuts them.
const maxMessageBytes = maxMessage * utf8.UTFMax

// joined returns the words for each of several things, with sep between them, up to where they fill
// a message.
func joined[T any](things []T, sep string, word func(T) string) string {
	var b strings.Builder
	for i, thing := range things {
		if i > 0 {
			b.WriteString(sep)
		}
		if b.WriteString(word(thing)); b.Len() > maxMessageBytes {
			break
		}
	}
	return b.String()
}

// shortened returns as much of a text as fills a message.
func shortened(text string) string { return text[:min(len(text), maxMessageBytes)] }

// quoted quotes a text of the schema, or as much of it as fills a message.
func quoted(text string) string { return strconv.Quote(shortened(text)) }

// literal writes a value of the schema (never of the input) as JSON would.
func literal(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return quoted(v)
	case []any:
		return "the array the schema gives"
	case map[string]any:
		return "the object the schema gives"
	}
	return fmt.Sprint(v)
}

func numeral(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}
