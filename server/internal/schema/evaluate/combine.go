package evaluate

import "github.com/santhosh-tekuri/jsonschema/v6/kind"

// references applies $recursiveRef and $dynamicRef.
func (r *run) references(n *node, v uint32, marked *marks) bool {
	ok := true
	if to := n.recursiveRef; to != nil {
		if to.recursive {
			to = r.scopes.outermost(r.scope, func(res *resource) *node {
				if res.root.recursive {
					return res.root
				}
				return nil
			}, to)
		}
		ok = r.applySelf(to, v, marked)
	}
	if ref := n.dynamicRef; ref != nil && (ok || r.collects()) {
		to := ref.target
		if ref.anchor != "" {
			to = r.scopes.outermost(r.scope, func(res *resource) *node { return res.anchors[ref.anchor] }, to)
		}
		ok = r.applySelf(to, v, marked) && ok
	}
	return ok
}

// combinations applies the keywords that combine schemas.
func (r *run) combinations(n *node, v uint32, marked *marks) bool {
	ok := true
	if n.not != nil && r.satisfies(n.not, v, nil) {
		ok = r.fail(func() any { return &kind.Not{} })
	}
	for _, sub := range n.allOf {
		if ok || r.collects() {
			ok = r.applySelf(sub, v, marked) && ok
		}
	}
	if len(n.anyOf) > 0 && (ok || r.collects()) {
		ok = r.anyOf(n, v, marked) && ok
	}
	if len(n.oneOf) > 0 && (ok || r.collects()) {
		ok = r.oneOf(n, v, marked) && ok
	}
	if n.condition != nil && (ok || r.collects()) {
		next := n.otherwise
		if r.satisfies(n.condition, v, marked) {
			next = n.then
		}
		if next != nil {
			ok = r.applySelf(next, v, marked) && ok
		}
	}
	return ok
}

func (r *run) anyOf(n *node, v uint32, marked *marks) bool {
	matched := false
	for _, sub := range n.anyOf {
		if r.satisfies(sub, v, marked) {
			if matched = true; marked == nil || marked.all {
				break
			}
		}
	}
	return matched || r.failAlternatives(&kind.AnyOf{}, n.anyOf, v)
}

func (r *run) oneOf(n *node, v uint32, marked *marks) bool {
	first := -1
	for i, sub := range n.oneOf {
		if !r.satisfies(sub, v, marked) {
			continue
		}
		if first >= 0 {
			return r.fail(func() any { return &kind.OneOf{Subschemas: []int{first, i}} })
		}
		first = i
	}
	return first >= 0 || r.failAlternatives(&kind.OneOf{}, n.oneOf, v)
}

// unevaluated applies unevaluatedProperties and unevaluatedItems, of which only one fits a value.
func (r *run) unevaluated(n *node, v uint32, marked *marks) bool {
	ok := true
	e := r.doc.entries[v]
	isObject := r.doc.kind(v) == objectKind
	for at, position := v+1, 0; at < e.next && !marked.all && (ok || r.collects()); position++ {
		switch {
		case marked.has(position):
			r.charge(1)
		case isObject:
			ok = r.applyMember(n.unevaluatedProperties, at, position) && ok
		default:
			ok = r.applyPart(n.unevaluatedItems, at, token{position: position}) && ok
		}
		if isObject {
			at++
		}
		at = r.doc.entries[at].next
	}
	return ok
}
