package schema

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	jsv "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/vitrine-mcp/vitrine/server/internal/schema/evaluate"
)

// A finding is one thing that is wrong, before it is worded.
type finding evaluate.Finding

// worded words findings, which must be sorted. more says that there are others.
func worded(findings []evaluate.Finding, more bool) []Fault {
	if len(findings) == 0 {
		return nil
	}
	faults, text := make([]Fault, 0, len(findings)+1), []byte(nil)
	for _, found := range findings {
		f := finding(found)
		text = f.appendTo(text[:0])
		next := fault(pointer(f.At), "%s", text)
		next.Named = f.named()
		faults = append(faults, next)
	}
	if more {
		faults = append(faults, fault("", "... and more"))
	}
	return faults
}

// schemaFaults words the compiler's error about a schema: all faults, in the order of their paths.
func schemaFaults(err *jsv.ValidationError, doc any) []Fault {
	findings := collect(nil, err, doc)
	evaluate.Sort(findings)
	kept := findings[:min(len(findings), maxFaults)]
	return worded(kept, len(findings) > len(kept))
}

// collect appends the leaves below err. Groups, references and allOf only group their
// causes. anyOf, oneOf and contains are leaves, because the faults of one alternative are
// not faults of the value.
func collect(to []evaluate.Finding, err *jsv.ValidationError, doc any) []evaluate.Finding {
	switch k := err.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		for _, cause := range err.Causes {
			to = collect(to, cause, doc)
		}
	case *kind.Required:
		for _, name := range k.Missing {
			to = append(to, evaluate.Finding{At: err.InstanceLocation, Kind: k, Name: name})
		}
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			to = append(to, evaluate.Finding{At: err.InstanceLocation, Kind: k, Name: name})
		}
	case *kind.PropertyNames:
		at := locate(doc, err.InstanceLocation, k.Property)
		to = append(to, evaluate.Finding{At: at, Kind: k, Name: k.Property, Causes: causesOf(err, doc)})
	default:
		to = append(to, evaluate.Finding{At: err.InstanceLocation, Kind: k, Causes: causesOf(err, doc)})
	}
	return to
}

// causesOf returns the causes of an error, with paths that begin at its own.
func causesOf(err *jsv.ValidationError, doc any) (all []evaluate.Finding) {
	for _, cause := range err.Causes {
		found := collect(nil, cause, doc)
		for i, f := range found {
			found[i].At = f.At[min(len(err.InstanceLocation), len(f.At)):]
		}
		evaluate.Sort(found)
		all = append(all, found...)
	}
	return all
}

// locate checks the location of a propertyNames fault in a schema. The compiler goes on writing to
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

// message words one finding.
func (f finding) message() string {
	switch k := f.Kind.(type) {
	case *kind.Type:
		return "must be " + anyOfTypes(k.Want) + ", got " + k.Got
	case *kind.Required:
		return "missing required property " + quoted(f.Name)
	case *kind.AdditionalProperties:
		return "unknown property " + named(f.Name)
	case *kind.PropertyNames:
		return "property name " + named(f.Name) + " is not allowed"
	case *kind.Enum:
		return "must be " + oneOfValues(k.Want)
	case *kind.Const:
		return "must be " + literal(k.Want)
	case *kind.FalseSchema:
		return "is not allowed here"
	case *kind.Not:
		return `must not match the schema under "not"`
	case *kind.AnyOf:
		return "matches none of the alternatives"
	case *kind.OneOf:
		if len(k.Subschemas) > 1 {
			return fmt.Sprintf("must match exactly one alternative, matches numbers %d and %d", k.Subschemas[0]+1, k.Subschemas[1]+1)
		}
		return "matches none of the alternatives"
	case *kind.Format:
		if k.Want == "regex" {
			return "must be a valid regular expression (RE2 syntax)"
		}
		return "must be a valid " + k.Want
	case *kind.Pattern:
		return "must match the pattern " + shortened(k.Want)
	case *kind.Dependency:
		return dependent(k.Prop, k.Missing)
	case *kind.DependentRequired:
		return dependent(k.Prop, k.Missing)
	case *kind.RefCycle:
		return "cannot be validated: the schema refers to itself without end"
	}
	return cmp.Or(countMessage(f.Kind), rangeMessage(f.Kind), keywordMessage(f.Kind))
}

// keywordMessage words the kinds for which there are no other words.
func keywordMessage(k any) string {
	unknown, ok := k.(jsv.ErrorKind)
	if !ok {
		return "is not valid"
	}
	return fmt.Sprintf("does not satisfy %q", strings.Join(unknown.KeywordPath(), "/"))
}

// named reports whether the message has names of properties that came with the value.
func (f finding) named() bool {
	switch f.Kind.(type) {
	case *kind.AdditionalProperties, *kind.PropertyNames, *kind.AnyOf, *kind.OneOf:
		return true
	}
	return false
}

// hasReasons reports whether the causes of a finding say why it is one.
func (f finding) hasReasons() bool {
	switch k := f.Kind.(type) {
	case *kind.PropertyNames, *kind.AnyOf:
		return true
	case *kind.OneOf:
		return len(k.Subschemas) < 2
	}
	return false
}

// appendTo appends the message of the finding to a text, and sums up why no alternative matches. Paths of causes
// start at the value itself.
func (f finding) appendTo(text []byte) []byte {
	text = append(text, f.message()...)
	if !f.hasReasons() {
		return text
	}
	separator, begin := ": ", len(text)
	var causes [][2]int // where they are in the text
	for _, found := range f.Causes {
		cause, before := finding(found), len(text)
		text = append(text, separator...)
		if len(cause.At) > 0 {
			text = append(append(text, clip(pointer(cause.At), maxEcho)...), ' ')
		}
		text = cause.appendTo(text)
		same := func(at [2]int) bool { return bytes.Equal(text[at[0]:at[1]], text[before+len(separator):]) }
		if slices.ContainsFunc(causes, same) {
			text = text[:before]
			continue
		}
		causes, separator = append(causes, [2]int{before + len(separator), len(text)}), "; "
		if len(text)-begin > maxMessageBytes {
			break
		}
	}
	return text
}
