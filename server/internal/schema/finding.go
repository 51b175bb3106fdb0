package schema

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	jsv "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

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

// compareTokens orders array indices as numbers and everything else as text.
func compareTokens(a, b string) int {
	i, errA := strconv.Atoi(a)
	j, errB := strconv.Atoi(b)
	if errA == nil && errB == nil {
		return cmp.Compare(i, j)
	}
	return strings.Compare(a, b)
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
