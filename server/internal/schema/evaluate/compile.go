package evaluate

import (
	"maps"
	"math/big"
	"slices"

	jsv "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/vitrine-mcp/vitrine/internal/order"
)

// Compile makes a program of a schema. The document is the one that the compiler has compiled at its
// URL; it says where the resources and the dynamic anchors are, which the compiler does not export.
func Compile(c *jsv.Compiler, url string, doc any) (*Program, error) {
	root, err := c.Compile(url)
	if err != nil {
		return nil, err
	}
	p := &Program{bySchema: map[*jsv.Schema]*node{}, anchored: map[string][]*node{}}
	p.root = p.nodeOf(root)
	if err := p.resolve(c, url, doc); err != nil {
		return nil, err
	}
	p.skipReferences()
	p.analyse()
	return p, nil
}

// nodeOf returns the node of a schema, and nil for nil.
func (p *Program) nodeOf(s *jsv.Schema) *node {
	if s == nil {
		return nil
	}
	if n := p.bySchema[s]; n != nil {
		return n
	}
	n := &node{id: uint32(len(p.nodes)), boolean: s.Bool, recursive: s.RecursiveAnchor}
	p.bySchema[s], p.nodes = n, append(p.nodes, n)
	if s.Types != nil && !s.Types.IsEmpty() {
		for _, name := range s.Types.ToStrings() {
			n.types, n.kinds = append(n.types, name), n.kinds|kindNamed(name)
		}
	}
	if s.Const != nil {
		n.constant = setOf(*s.Const)
	}
	if s.Enum != nil {
		n.enum = setOf(s.Enum.Values...)
	}
	n.format = formatOf(s.Format)
	if n.ref = p.nodeOf(s.Ref); n.ref != nil && s.DraftVersion < 2019 {
		return n // keywords beside $ref are ignored
	}
	n.object, n.array = p.objectOf(s), p.arrayOf(s)
	n.text, n.number = textOf(s), numberOf(s)
	n.recursiveRef = p.nodeOf(s.RecursiveRef)
	if d := s.DynamicRef; d != nil {
		n.dynamicRef = &dynamicRef{target: p.nodeOf(d.Ref)}
		if d.Anchor != "" && d.Ref.DynamicAnchor == d.Anchor {
			n.dynamicRef.anchor = d.Anchor
		}
	}
	n.not, n.allOf, n.anyOf, n.oneOf = p.nodeOf(s.Not), p.nodesOf(s.AllOf), p.nodesOf(s.AnyOf), p.nodesOf(s.OneOf)
	n.condition, n.then, n.otherwise = p.nodeOf(s.If), p.nodeOf(s.Then), p.nodeOf(s.Else)
	n.unevaluatedProperties, n.unevaluatedItems = p.nodeOf(s.UnevaluatedProperties), p.nodeOf(s.UnevaluatedItems)
	p.dynamic = p.dynamic || n.recursiveRef != nil || n.dynamicRef != nil
	return n
}

func (p *Program) nodesOf(schemas []*jsv.Schema) []*node {
	var nodes []*node
	for _, s := range schemas {
		nodes = append(nodes, p.nodeOf(s))
	}
	return nodes
}

func (p *Program) objectOf(s *jsv.Schema) *objectRules {
	o := &objectRules{minProperties: s.MinProperties, maxProperties: s.MaxProperties, names: map[string]*named{}}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		o.named(name).schema = p.nodeOf(s.Properties[name])
	}
	o.required = o.namedAll(s.Required)
	for _, name := range slices.Sorted(maps.Keys(s.Dependencies)) {
		d := dependency{because: o.named(name), old: true}
		switch on := s.Dependencies[name].(type) {
		case []string:
			d.required = o.namedAll(on)
		case *jsv.Schema:
			d.schema = p.nodeOf(on)
		}
		o.dependencies = append(o.dependencies, d)
	}
	for _, name := range slices.Sorted(maps.Keys(s.DependentSchemas)) {
		o.dependent = append(o.dependent, dependency{because: o.named(name), schema: p.nodeOf(s.DependentSchemas[name])})
	}
	for _, name := range slices.Sorted(maps.Keys(s.DependentRequired)) {
		o.dependent = append(o.dependent, dependency{because: o.named(name), required: o.namedAll(s.DependentRequired[name])})
	}
	for expression, sub := range s.PatternProperties {
		o.patterns = append(o.patterns, patternRule{patternOf(expression), p.nodeOf(sub)})
	}
	order.By(o.patterns, func(a, b *patternRule) bool { return a.pattern.text < b.pattern.text })
	switch additional := s.AdditionalProperties.(type) {
	case bool:
		o.closed, o.open = !additional, additional
	case *jsv.Schema:
		o.additional = p.nodeOf(additional)
	}
	o.nameRule = p.nodeOf(s.PropertyNames)
	o.aboutMembers = len(s.Properties)+len(o.patterns) > 0 || o.closed || o.additional != nil || o.nameRule != nil
	if o.minProperties == nil && o.maxProperties == nil && len(o.names) == 0 && !o.aboutMembers && !o.open {
		return nil
	}
	return o
}

// named returns the property with a name.
func (o *objectRules) named(name string) *named {
	n := o.names[name]
	if n == nil {
		n = &named{name: name, number: len(o.names)}
		o.names[name] = n
	}
	return n
}

func (o *objectRules) namedAll(names []string) (all []*named) {
	for _, name := range names {
		all = append(all, o.named(name))
	}
	return all
}

func (p *Program) arrayOf(s *jsv.Schema) *arrayRules {
	a := &arrayRules{
		minItems: s.MinItems, maxItems: s.MaxItems, unique: s.UniqueItems,
		contains: p.nodeOf(s.Contains), minContains: s.MinContains, maxContains: s.MaxContains,
		marksContained: s.DraftVersion >= 2020,
	}
	if s.DraftVersion >= 2020 {
		a.prefix, a.rest = p.nodesOf(s.PrefixItems), p.nodeOf(s.Items2020)
	} else {
		switch items := s.Items.(type) {
		case *jsv.Schema:
			a.rest = p.nodeOf(items)
		case []*jsv.Schema:
			a.prefix = p.nodesOf(items)
			switch additional := s.AdditionalItems.(type) {
			case bool:
				a.closed, a.open = !additional, additional
			case *jsv.Schema:
				a.rest = p.nodeOf(additional)
			}
		}
	}
	if a.minItems == nil && a.maxItems == nil && !a.unique && len(a.prefix) == 0 && a.rest == nil && !a.closed &&
		!a.open && a.contains == nil {
		return nil
	}
	return a
}

func textOf(s *jsv.Schema) *textRules {
	if s.MinLength == nil && s.MaxLength == nil && s.Pattern == nil {
		return nil
	}
	t := &textRules{minLength: s.MinLength, maxLength: s.MaxLength}
	if s.Pattern != nil {
		t.pattern = patternOf(s.Pattern)
	}
	return t
}

func numberOf(s *jsv.Schema) *numberRules {
	n := &numberRules{
		minimum: boundOf(s.Minimum), maximum: boundOf(s.Maximum),
		above: boundOf(s.ExclusiveMinimum), below: boundOf(s.ExclusiveMaximum),
	}
	if s.MultipleOf != nil {
		n.multipleOf, n.multiple = divisorOf(s.MultipleOf), s.MultipleOf
	}
	if n.minimum == nil && n.maximum == nil && n.above == nil && n.below == nil && n.multipleOf == nil {
		return nil
	}
	return n
}

func boundOf(r *big.Rat) *bound {
	if r == nil {
		return nil
	}
	b := &bound{decimal: decimalOf(r), value: r}
	if r.IsInt() && r.Num().IsInt64() {
		b.small, b.exact = r.Num().Int64(), true
	}
	return b
}
