package schema

import (
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
// describes. It is an error if the two contradict each other: if only one of them has a
// property, unless that is allowed, or if no JSON type fits both. The error lists the
// paths with what each side has; "*" in a path stands for the items of an array.
//
// References and what stands below allOf, anyOf, oneOf, if, then, else and
// dependentSchemas count as part of the schema. Nothing is compared below types of which
// nothing is known: any, maps, and types with JSON methods of their own, as
// jsontext.Value has; and schemas that say nothing of their value, such as true.
func (s *Schema) Match(t reflect.Type, allowUnmatched bool) error {
	m := matcher{unmatched: allowUnmatched, seen: map[string]bool{}}
	m.visit(t, nodes{must: []*jsv.Schema{s.compiled}}, nil)
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
	seen      map[string]bool // pairs that are compared already: both sides may be recursive
	found     []string
}

func (m *matcher) report(path []string, format string, args ...any) {
	at := pointer(path)
	if at == "" {
		at = "/"
	}
	m.found = append(m.found, at+": "+fmt.Sprintf(format, args...))
}

// nodes are the schemas that speak of one value: those that it must satisfy, and those
// that are alternatives or depend on a condition.
type nodes struct{ must, may []*jsv.Schema }

// flat follows references and the keywords that apply more schemas to the same value.
func (n nodes) flat() nodes {
	var out nodes
	for _, s := range n.must {
		out.add(s, true)
	}
	for _, s := range n.may {
		out.add(s, false)
	}
	return out
}

func (n *nodes) add(s *jsv.Schema, must bool) {
	if s == nil || slices.Contains(n.must, s) || !must && slices.Contains(n.may, s) {
		return
	}
	if must {
		n.must = append(n.must, s)
	} else {
		n.may = append(n.may, s)
	}
	for _, all := range append([]*jsv.Schema{s.Ref, s.RecursiveRef, dynamic(s)}, s.AllOf...) {
		n.add(all, must)
	}
	for _, some := range slices.Concat(s.AnyOf, s.OneOf, []*jsv.Schema{s.If, s.Then, s.Else}) {
		n.add(some, false)
	}
	for _, some := range s.DependentSchemas {
		n.add(some, false)
	}
	for _, some := range s.Dependencies {
		if sub, ok := some.(*jsv.Schema); ok {
			n.add(sub, false)
		}
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
	has := n.kinds()
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

// empty reports whether no value satisfies the schema: then there is none to decode.
func (n nodes) empty() bool {
	return slices.ContainsFunc(n.must, func(s *jsv.Schema) bool { return s.Bool != nil && !*s.Bool })
}

// silent reports whether the schemas say nothing about the members of an object.
func (n nodes) silent() bool {
	return !slices.ContainsFunc(slices.Concat(n.must, n.may), func(s *jsv.Schema) bool {
		return s.Properties != nil || s.PatternProperties != nil || s.AdditionalProperties != nil
	})
}

// items compares the items of an array, all that there may be.
func (m *matcher) items(elem reflect.Type, n nodes, path []string) {
	at := append(slices.Clip(path), "*")
	must, first := itemSchemas(n.must)
	may, second := itemSchemas(n.may)
	m.visit(elem, nodes{must, may}, at)
	for _, s := range append(first, second...) {
		m.visit(elem, nodes{must: []*jsv.Schema{s}}, at)
	}
}

// itemSchemas returns the schemas of all items of an array, and those of single ones.
func itemSchemas(of []*jsv.Schema) (all, single []*jsv.Schema) {
	for _, s := range of {
		if s.Items2020 != nil {
			all = append(all, s.Items2020)
		}
		single = append(single, s.PrefixItems...)
		switch items := s.Items.(type) {
		case *jsv.Schema:
			all = append(all, items)
		case []*jsv.Schema:
			single = append(single, items...)
		}
		if rest, ok := s.AdditionalItems.(*jsv.Schema); ok {
			single = append(single, rest)
		}
	}
	return all, single
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
		sub, has := properties[f.name]
		if !has {
			sub, has = n.byPattern(f.name)
		}
		at := append(slices.Clip(path), f.name)
		switch {
		case has && !f.unknown:
			m.visit(f.typ, sub, at)
		case !has && !m.unmatched:
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

// properties are those that the schemas speak of.
func (n nodes) properties() map[string]nodes {
	all := map[string]nodes{}
	for _, s := range n.must {
		for name, p := range s.Properties {
			all[name] = nodes{append(all[name].must, p), nil}
		}
	}
	for _, s := range n.may {
		for name, p := range s.Properties {
			all[name] = nodes{all[name].must, append(all[name].may, p)}
		}
	}
	return all
}

// byPattern finds a property that only patternProperties describe.
func (n nodes) byPattern(name string) (sub nodes, has bool) {
	for _, s := range n.must {
		for pattern, p := range s.PatternProperties {
			if pattern.MatchString(name) {
				sub.must, has = append(sub.must, p), true
			}
		}
	}
	for _, s := range n.may {
		for pattern, p := range s.PatternProperties {
			if pattern.MatchString(name) {
				sub.may, has = append(sub.may, p), true
			}
		}
	}
	return sub, has
}
