package evaluate

import (
	"math/big"

	jsv "github.com/santhosh-tekuri/jsonschema/v6"
)

// A node is one compiled schema. Parts that say nothing are nil.
type node struct {
	id       uint32
	boolean  *bool // a schema that is true or false
	types    []string
	kinds    kinds // of types; 0 is all
	constant *set
	enum     *set
	format   *format
	object   *objectRules
	array    *arrayRules
	text     *textRules
	number   *numberRules

	// These apply to the value itself.
	ref          *node
	dynamicRef   *dynamicRef
	recursiveRef *node
	not          *node
	allOf        []*node
	anyOf        []*node
	oneOf        []*node
	condition    *node // if
	then         *node
	otherwise    *node // else

	unevaluatedProperties *node
	unevaluatedItems      *node

	simple   bool // no other node applies to the value itself
	typeOnly bool // there is nothing but the types to look at

	resource  *resource
	recursive bool // $recursiveAnchor is true

	// loops is true if the node may be reached from itself without a step into the value.
	loops bool
	// shared is true if the node is reached in several ways, so that its verdict about an object or
	// an array is worth remembering; branches, if that holds for any value. deep is true if it
	// applies other nodes: then the second pass asks for its verdict before it looks for its faults as causes.
	shared, branches, deep bool
}

type objectRules struct {
	minProperties, maxProperties *int
	// names has the properties that the schema names anywhere: they are numbered from 0.
	names        map[string]*named
	required     []*named
	dependencies []dependency
	dependent    []dependency // dependentSchemas and dependentRequired
	patterns     []patternRule
	additional   *node
	closed       bool // additionalProperties is false
	open         bool // additionalProperties is true
	nameRule     *node
	aboutMembers bool // there is more to look at than whether a property is there
}

// A named is a property that a schema names.
type named struct {
	name   string
	number int
	schema *node // of properties, or nil
}

// A dependency says what else an object with some property must satisfy.
type dependency struct {
	because  *named
	required []*named
	schema   *node
	old      bool // the keyword is dependencies
}

type patternRule struct {
	pattern *pattern
	schema  *node
}

type arrayRules struct {
	minItems, maxItems *int
	unique             bool
	prefix             []*node
	rest               *node // of the items after the prefix
	closed             bool  // additionalItems is false
	open               bool  // additionalItems is true
	contains           *node
	minContains        *int
	maxContains        *int
	marksContained     bool // what contains has matched counts as evaluated
}

type textRules struct {
	minLength, maxLength *int
	pattern              *pattern
}

type numberRules struct {
	minimum, maximum, above, below *bound
	multipleOf                     *divisor
	multiple                       *big.Rat // multipleOf as it was written
}

// A bound is a number in a schema.
type bound struct {
	decimal
	small int64 // the value, if exact
	exact bool
	value *big.Rat
}

// A dynamicRef is $dynamicRef.
type dynamicRef struct {
	target *node
	anchor string // "" if it is not dynamic
}

// edges returns where a node has others, nil ones too: those that apply to the value itself, without those of
// dynamic references, and those that apply to its parts.
func (n *node) edges() (itself, parts []**node) {
	itself = []**node{&n.ref, &n.not, &n.condition, &n.then, &n.otherwise}
	for _, list := range [][]*node{n.allOf, n.anyOf, n.oneOf} {
		for i := range list {
			itself = append(itself, &list[i])
		}
	}
	parts = []**node{&n.unevaluatedProperties, &n.unevaluatedItems}
	if o := n.object; o != nil {
		for _, list := range [][]dependency{o.dependencies, o.dependent} {
			for i := range list {
				itself = append(itself, &list[i].schema)
			}
		}
		parts = append(parts, &o.additional, &o.nameRule)
		for _, name := range o.names {
			parts = append(parts, &name.schema)
		}
		for i := range o.patterns {
			parts = append(parts, &o.patterns[i].schema)
		}
	}
	if a := n.array; a != nil {
		parts = append(parts, &a.rest, &a.contains)
		for i := range a.prefix {
			parts = append(parts, &a.prefix[i])
		}
	}
	return itself, parts
}

// applied returns the nodes that apply to the value itself if n does. Those of a dynamic reference are
// all that it can mean.
func (n *node) applied(p *Program) []*node {
	itself, _ := n.edges()
	all := present(itself)
	if n.dynamicRef != nil {
		all = append(append(all, n.dynamicRef.target), p.anchored[n.dynamicRef.anchor]...)
	}
	if n.recursiveRef != nil {
		all = append(append(all, n.recursiveRef), p.recursive...)
	}
	return all
}

// below returns the nodes that apply to the parts of a value if n applies to it.
func (n *node) below() []*node {
	_, parts := n.edges()
	return present(parts)
}

// present returns the nodes that there are.
func present(edges []**node) (nodes []*node) {
	for _, to := range edges {
		if *to != nil {
			nodes = append(nodes, *to)
		}
	}
	return nodes
}

// A Program is a schema that was compiled for evaluation. It does not change, and it is safe for
// concurrent use.
type Program struct {
	root      *node
	nodes     []*node
	bySchema  map[*jsv.Schema]*node
	levels    int                // of a value to which there is a schema to apply
	dynamic   bool               // there are dynamic references
	anchored  map[string][]*node // by $dynamicAnchor
	recursive []*node            // with $recursiveAnchor
}

// Parts returns how many schemas there are in the schema, and itself.
func (p *Program) Parts() int { return len(p.nodes) }
