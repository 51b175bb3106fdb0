package schema

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	jsv "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// Bounds on what a model, and a log, are shown of one bad value.
const (
	maxFaults  = 32  // faults of one value
	maxMessage = 200 // runes of one message
	maxPath    = 256 // bytes of one path
	maxEcho    = 40  // runes of a name that came from the input
)

// A Fault is one thing that is wrong with a value, worded so that a language
// model can mend it.
type Fault struct {
	// Path is the JSON pointer (RFC 6901) of the faulty value, "" for the root.
	// For a missing or an unknown property it is the object's. A path longer
	// than 256 bytes is cut and ends in an ellipsis.
	Path string
	// Message says what is expected, in at most 200 characters. Of the value
	// itself it repeats nothing but its type, counts and property names, unless Quotes.
	Message string
	// Quotes marks a message with the words of a Go type's own method, which may
	// repeat the value.
	Quotes bool
	// Named marks a message with names of properties that came with the value.
	Named bool
	// Misfit marks a value that the schema allows and the Go type can never hold,
	// whatever its contents: the two contradict each other. It is the only fault then.
	Misfit bool
}

// String is the fault as one line: path, colon, message.
func (f Fault) String() string {
	if f.Path == "" {
		return f.Message
	}
	return f.Path + ": " + f.Message
}

// fault makes a Fault within the bounds.
func fault(path, format string, args ...any) Fault {
	if len(path) > maxPath {
		cut := maxPath - len("…")
		for !utf8.RuneStart(path[cut]) {
			cut--
		}
		path = path[:cut] + "…"
	}
	return Fault{Path: path, Message: clip(fmt.Sprintf(format, args...), maxMessage)}
}

// clip cuts text to n runes, the last one an ellipsis when something was cut.
func clip(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-1]) + "…"
}

// named quotes a property name that came from the input.
func named(name string) string { return strconv.Quote(clip(name, maxEcho)) }

// A finding is one leaf of the validator's error tree. Findings are sorted and
// cut before they are worded: a hostile value can have a million of them.
type finding struct {
	at   []string
	kind jsv.ErrorKind
	name string // the property, for kinds that list several
	err  *jsv.ValidationError
}

// faultsOf words the validator's error: all faults, in the order of their paths.
func faultsOf(err *jsv.ValidationError, value any) []Fault {
	findings := sorted(collect(nil, err, value))
	faults := make([]Fault, 0, min(len(findings), maxFaults+1))
	for _, f := range findings[:min(len(findings), maxFaults)] {
		worded := fault(pointer(f.at), "%s", f.message(value))
		worded.Named = f.named()
		faults = append(faults, worded)
	}
	if more := len(findings) - maxFaults; more > 0 {
		faults = append(faults, fault("", "... and %d more", more))
	}
	return faults
}

// sorted orders findings by path: the validator walks Go maps, so its own order
// changes from run to run.
func sorted(findings []finding) []finding {
	slices.SortStableFunc(findings, func(a, b finding) int {
		return cmp.Or(slices.CompareFunc(a.at, b.at, compareTokens), strings.Compare(a.name, b.name))
	})
	return findings
}

// collect appends the leaves below err. Groups, references and allOf only hold
// their causes together; anyOf, oneOf and contains are leaves, because the
// faults of an alternative are no faults of the value.
func collect(to []finding, err *jsv.ValidationError, value any) []finding {
	switch k := err.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		for _, cause := range err.Causes {
			to = collect(to, cause, value)
		}
	case *kind.Required:
		for _, name := range k.Missing {
			to = append(to, finding{at: err.InstanceLocation, kind: k, name: name})
		}
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			to = append(to, finding{at: err.InstanceLocation, kind: k, name: name})
		}
	case *kind.PropertyNames:
		to = append(to, finding{at: locate(value, err.InstanceLocation, k.Property), kind: k, name: k.Property, err: err})
	default:
		to = append(to, finding{at: err.InstanceLocation, kind: k, err: err})
	}
	return to
}

// locate checks the location of a propertyNames fault. The validator keeps it as
// a slice that it goes on writing to (v6.0.3, objValidate), so it may be wrong
// by now; then the fault is put on the root and its message names the property.
func locate(value any, at []string, name string) []string {
	for _, token := range at {
		switch v := value.(type) {
		case map[string]any:
			value = v[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(v) {
				return nil
			}
			value = v[i]
		}
	}
	if object, ok := value.(map[string]any); ok {
		if _, ok := object[name]; ok {
			return slices.Clone(at)
		}
	}
	return nil
}

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
	if text := countMessage(f.kind); text != "" {
		return text
	}
	if text := rangeMessage(f.kind); text != "" {
		return text
	}
	return fmt.Sprintf("does not satisfy %q", strings.Join(f.kind.KeywordPath(), "/"))
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

// causes sums up why alternatives do not match, with paths that start at the
// value that has none.
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
			if len(texts) == maxFaults { // far more than a message holds
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
	quoted := make([]string, len(missing))
	for i, name := range missing {
		quoted[i] = strconv.Quote(name)
	}
	return "missing property " + strings.Join(quoted, ", ") + ", required because " + strconv.Quote(because) + " is present"
}

// anyOfTypes is "an integer" or "a string or null".
func anyOfTypes(types []string) string {
	words := make([]string, len(types))
	for i, t := range types {
		switch t {
		case "null":
			words[i] = t
		case "integer", "array", "object":
			words[i] = "an " + t
		default:
			words[i] = "a " + t
		}
	}
	// null reads best at the end: "a string or null".
	slices.SortStableFunc(words, func(a, b string) int {
		return cmp.Compare(btoi(a == "null"), btoi(b == "null"))
	})
	return strings.Join(words, " or ")
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func oneOfValues(values []any) string {
	if len(values) == 1 {
		return literal(values[0])
	}
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = literal(v)
	}
	return "one of " + strings.Join(texts, ", ")
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

// pointer joins tokens to a JSON pointer.
func pointer(tokens []string) string {
	var p jsontext.Pointer
	for _, token := range tokens {
		p = p.AppendToken(token)
	}
	return string(p)
}

// compareTokens orders array indices as numbers and everything else as text.
func compareTokens(a, b string) int {
	i, errA := strconv.Atoi(a)
	j, errB := strconv.Atoi(b)
	if errA == nil && errB == nil {
		return cmp.Compare(i, j)
	}
	return strings.Compare(a, b)
}
