package schema

import (
	"encoding/json" // for Number, which is how the validator has numbers
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	jsv "github.com/santhosh-tekuri/jsonschema/v6"
)

// maxMismatches is how many contradictions one error lists.
const maxMismatches = 8

// Match compares a schema that was given by hand with the Go type whose values it
// describes. It returns an error if the two contradict each other: if only one of them has
// a property, unless that is allowed, or if no JSON type fits both. The error lists the
// paths with what each side has; "*" in a path stands for the items of an array.
//
// References, allOf, anyOf, oneOf, if, then, else and dependentSchemas count as part of the
// schema. Match compares nothing below Go types whose JSON is unknown (any, maps, and types
// with JSON methods such as jsontext.Value), and below schemas that say nothing about their
// value, such as true.
func (s *Schema) Match(t reflect.Type, allowUnmatched bool) error {
	m := matcher{unmatched: allowUnmatched, seen: map[string]bool{}, known: map[*jsv.Schema]kinds{}}
	m.visit(t, nodes{{s.compiled, true}}, nil)
	if len(m.found) == 0 {
		return nil
	}
	listed := m.found[:min(len(m.found), maxMismatches)]
	text := "schema and Go type differ: " + strings.Join(listed, "; ")
	if more := len(m.found) - len(listed); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return errors.New(text)
}

// A matcher walks a schema and a Go type side by side.
type matcher struct {
	unmatched bool
	seen      map[string]bool // pairs that were compared before: both sides may be recursive
	found     []string
	known     map[*jsv.Schema]kinds // what each schema allows: many references may lead to one
}

func (m *matcher) report(path []string, format string, args ...any) {
	at := pointer(path)
	if at == "" {
		at = "/"
	}
	m.found = append(m.found, at+": "+fmt.Sprintf(format, args...))
}

// A schemaNode is a schema that applies to a value. Either the value must satisfy it, or it is an
// alternative or depends on a condition.
type schemaNode struct {
	schema *jsv.Schema
	must   bool
}

// nodes are all schemas that apply to one value.
type nodes []schemaNode

// flat follows references and the keywords that apply more schemas to the same value.
// Schemas that the value must satisfy come first.
func (n nodes) flat() nodes {
	var out nodes
	for _, must := range []bool{true, false} {
		for _, node := range n {
			if node.must == must {
				out.add(node)
			}
		}
	}
	return out
}

func (n *nodes) add(new schemaNode) {
	s := new.schema
	if s == nil || slices.Contains(*n, new) || slices.Contains(*n, schemaNode{s, true}) {
		return
	}
	*n = append(*n, new)
	for _, all := range append([]*jsv.Schema{s.Ref, s.RecursiveRef, dynamic(s)}, s.AllOf...) {
		n.add(schemaNode{all, new.must})
	}
	some := slices.Concat(s.AnyOf, s.OneOf, []*jsv.Schema{s.If, s.Then, s.Else}, slices.Collect(maps.Values(s.DependentSchemas)))
	for _, dependency := range s.Dependencies {
		if sub, ok := dependency.(*jsv.Schema); ok {
			some = append(some, sub)
		}
	}
	for _, one := range some {
		n.add(schemaNode{one, false})
	}
}

func dynamic(s *jsv.Schema) *jsv.Schema {
	if s.DynamicRef == nil {
		return nil
	}
	return s.DynamicRef.Ref
}

// visit compares one value. The nodes need not be flat.
func (m *matcher) visit(t reflect.Type, n nodes, path []string) {
	t = deref(t)
	key := fmt.Sprint(t, t.PkgPath(), n)
	if m.seen[key] {
		return
	}
	m.seen[key] = true
	n = n.flat()
	if t == durationType || t.Kind() == reflect.Chan || t.Kind() == reflect.Func {
		m.report(path, "the Go type %v has no JSON form", t)
		return
	}
	kinds := goKinds(t)
	if kinds == 0 || n.empty() {
		return
	}
	has := m.kinds(n)
	switch {
	case has&kinds == 0:
		m.report(path, "the schema has %s, the Go type %v is %s: change one of them", has, t, kinds)
	case kinds == arrayKind:
		m.items(t.Elem(), n, path)
	case has == allKinds && n.silent(): // the schema's any
	case kinds == objectKind && t.Kind() == reflect.Struct:
		m.members(t, n, path)
	}
}

// empty reports whether no value satisfies the schemas, so that there is nothing to decode.
func (n nodes) empty() bool {
	return slices.ContainsFunc(n, func(of schemaNode) bool { return of.must && of.schema.Bool != nil && !*of.schema.Bool })
}

// silent reports whether the schemas say nothing about the members of an object.
func (n nodes) silent() bool {
	return !slices.ContainsFunc(n, func(of schemaNode) bool {
		s := of.schema
		return s.Properties != nil || s.PatternProperties != nil || s.AdditionalProperties != nil
	})
}

// items compares the items of an array, at all positions.
func (m *matcher) items(elem reflect.Type, n nodes, path []string) {
	at := append(slices.Clip(path), "*")
	var all nodes
	var single []*jsv.Schema
	for _, of := range n {
		s := of.schema
		if s.Items2020 != nil {
			all = append(all, schemaNode{s.Items2020, of.must})
		}
		single = append(single, s.PrefixItems...)
		switch items := s.Items.(type) {
		case *jsv.Schema:
			all = append(all, schemaNode{items, of.must})
		case []*jsv.Schema:
			single = append(single, items...)
		}
		if rest, ok := s.AdditionalItems.(*jsv.Schema); ok {
			single = append(single, rest)
		}
	}
	m.visit(elem, all, at)
	for _, s := range single {
		m.visit(elem, nodes{{s, true}}, at)
	}
}

// members compares the properties of an object with the fields of a struct.
func (m *matcher) members(t reflect.Type, n nodes, path []string) {
	fields, open, err := structFields(t)
	if err != nil {
		m.report(path, "the Go type %v has no JSON form: %v", t, err)
		return
	}
	properties := n.properties()
	for _, f := range fields {
		sub := properties[f.name]
		if sub == nil {
			sub = n.byPattern(f.name)
		}
		at := append(slices.Clip(path), f.name)
		switch {
		case sub != nil && !f.unknown:
			m.visit(f.typ, sub, at)
		case sub == nil && !m.unmatched:
			m.report(at, "the schema has no such property, the Go type %v has the field %s: "+
				"add it to the schema, or exclude the field (json:\"-\")", t, f.goName)
		}
	}
	if open || m.unmatched {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		known := slices.ContainsFunc(fields, func(f goField) bool {
			return f.name == name || f.anyCase && strings.EqualFold(f.name, name)
		})
		if !known && !properties[name].flat().empty() {
			m.report(append(slices.Clip(path), name), "the schema has the property, the Go type %v has no field for it: "+
				"add one, or take the property out of the schema", t)
		}
	}
}

// properties returns the schemas of all properties by name.
func (n nodes) properties() map[string]nodes {
	all := map[string]nodes{}
	for _, of := range n {
		for name, p := range of.schema.Properties {
			all[name] = append(all[name], schemaNode{p, of.must})
		}
	}
	return all
}

// byPattern returns the schemas that patternProperties have for a property.
func (n nodes) byPattern(name string) (sub nodes) {
	for _, of := range n {
		for pattern, p := range of.schema.PatternProperties {
			if pattern.MatchString(name) {
				sub = append(sub, schemaNode{p, of.must})
			}
		}
	}
	return sub
}

// kinds returns the JSON types that flat nodes allow. Alternatives count only if there is
// nothing that the value must satisfy, and then together.
func (m *matcher) kinds(n nodes) kinds {
	all, some := kinds(allKinds), kinds(0)
	for _, of := range n {
		if of.must {
			all &= m.kindsOf(of.schema)
		} else {
			some |= m.kindsOf(of.schema)
		}
	}
	if len(n) > 0 && !n[0].must {
		return some
	}
	return all
}

// kindsOf returns the JSON types that a schema allows. If it leads to itself without a step into the
// value, they may be too many.
func (m *matcher) kindsOf(s *jsv.Schema) kinds {
	if s == nil {
		return allKinds
	}
	k, known := m.known[s]
	if !known {
		m.known[s] = allKinds // if it is asked for again inside of itself
		k = m.combinedKinds(s)
		m.known[s] = k
	}
	return k
}

// combinedKinds returns the JSON types that all keywords of a schema allow.
func (m *matcher) combinedKinds(s *jsv.Schema) kinds {
	if s.Bool != nil && !*s.Bool {
		return 0
	}
	k := kinds(allKinds)
	if s.Types != nil {
		k = 0
		for _, name := range s.Types.ToStrings() {
			for _, n := range kindNames {
				if n.name == name {
					k |= n.kinds
				}
			}
		}
	}
	if s.Const != nil {
		k &= kindOfValue(*s.Const)
	}
	if s.Enum != nil {
		var some kinds
		for _, v := range s.Enum.Values {
			some |= kindOfValue(v)
		}
		k &= some
	}
	for _, all := range append([]*jsv.Schema{s.Ref, s.RecursiveRef, dynamic(s)}, s.AllOf...) {
		k &= m.kindsOf(all)
	}
	for _, alternatives := range [][]*jsv.Schema{s.AnyOf, s.OneOf} {
		if len(alternatives) == 0 {
			continue
		}
		var some kinds
		for _, one := range alternatives {
			some |= m.kindsOf(one)
		}
		k &= some
	}
	return k
}

func kindOfValue(v any) kinds {
	switch v.(type) {
	case nil:
		return nullKind
	case bool:
		return booleanKind
	case string:
		return stringKind
	case []any:
		return arrayKind
	case map[string]any:
		return objectKind
	case json.Number:
		return numberKind
	}
	return allKinds
}
