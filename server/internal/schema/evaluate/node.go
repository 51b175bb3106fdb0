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

	simple bool // no other node applies to the value itself

	resource  *resource
	recursive bool // $recursiveAnchor is true

	// loops is true if the node may be reached from itself without a step into the value.
	loops bool
	// shared is true if the node is reached in several ways, so that its verdict about an object or
	// an array is worth remembering; branches, if that holds for any value. deep is true if it
	// applies other nodes: then the second pass asks for its verdict before it looks for its faults.
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

// applied returns the nodes that apply to the value itself if n does. Those of a dynamic reference are
// all that it can mean.
func (n *node) applied(p *Program) []*node {
	all := []*node{n.ref, n.not, n.condition, n.then, n.otherwise}
	all = append(append(append(all, n.allOf...), n.anyOf...), n.oneOf...)
	if n.object != nil {
		for _, list := range [][]dependency{n.object.dependencies, n.object.dependent} {
			for _, d := range list {
				all = append(all, d.schema)
			}
		}
	}
	if n.dynamicRef != nil {
		all = append(append(all, n.dynamicRef.target), p.anchored[n.dynamicRef.anchor]...)
	}
	if n.recursiveRef != nil {
		all = append(append(all, n.recursiveRef), p.recursive...)
	}
	return present(all)
}

// below returns the nodes that apply to the parts of a value if n applies to it.
func (n *node) below() []*node {
	all := []*node{n.unevaluatedProperties, n.unevaluatedItems}
	if o := n.object; o != nil {
		all = append(all, o.additional, o.nameRule)
		for _, name := range o.names {
			all = append(all, name.schema)
		}
		for _, p := range o.patterns {
			all = append(all, p.schema)
		}
	}
	if a := n.array; a != nil {
		all = append(append(all, a.rest, a.contains), a.prefix...)
	}
	return present(all)
}

// present returns the nodes that are not nil.
func present(nodes []*node) (some []*node) {
	for _, n := range nodes {
		if n != nil {
			some = append(some, n)
		}
	}
	return some
}

// A Program is a schema that was compiled for evaluation. It does not change, and it is safe for
// concurrent use.
type Program struct {
	root      *node
	nodes     []*node
	bySchema  map[*jsv.Schema]*node
	dynamic   bool               // there are dynamic references
	anchored  map[string][]*node // by $dynamicAnchor
	recursive []*node            // with $recursiveAnchor
}
