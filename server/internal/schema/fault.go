package schema

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	jsv "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// Bounds on what a model and a log get of one bad value.
const (
	maxFaults  = 32  // faults of one value
	maxMessage = 200 // runes of one message
	maxPath    = 256 // bytes of one path
	maxEcho    = 40  // runes of a name that came from the input
)

// A Fault is one thing that is wrong with a value, worded so that a language model can
// correct it.
type Fault struct {
	// Path is the JSON pointer (RFC 6901) of the faulty value, "" for the root.
	// For a missing or an unknown property it is the pointer of the object. A path longer
	// than 256 bytes is cut and ends in an ellipsis.
	Path string
	// Message says what is expected, in at most 200 characters. Unless Quotes is set, it
	// repeats nothing of the value but its type, counts and property names.
	Message string
	// Quotes marks a message with the error text of a Go type's method, which may repeat the
	// value.
	Quotes bool
	// Named marks a message with names of properties that came with the value.
	Named bool
	// Misfit marks a value of a JSON type that the schema allows and the Go type can never
	// hold: schema and type contradict each other. It is the only fault then.
	Misfit bool
}

// String returns the fault as one line: path, colon, message.
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

// collect appends the leaves below err. Groups, references and allOf only group their
// causes. anyOf, oneOf and contains are leaves, because the faults of one alternative are
// not faults of the value.
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

// locate checks the location of a propertyNames fault. The validator goes on writing to
// that slice (v6.0.3, objValidate), so that it may be wrong. Then the fault is reported
// at the root, and its message names the property.
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

// wrap adds to an error, if there is one, what it is about.
func wrap(err *error, format string, args ...any) {
	if *err != nil {
		*err = fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), *err)
	}
}

// fieldError is an error about the field at a path like "days[].high".
func fieldError(at, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if at == "" {
		return err
	}
	return fmt.Errorf("field %s: %w", at, err)
}

// join appends a name to the path of a field.
func join(at, name string) string {
	if at == "" {
		return name
	}
	return strings.TrimSuffix(at, ".") + "." + name
}
