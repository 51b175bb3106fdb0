package evaluate

// skipReferences has all nodes apply the targets of the nodes that do nothing but refer to one: each such node
// would cost as much as another one. Dynamic references need them, because they ask through which resources an
// evaluation has come.
func (p *Program) skipReferences() {
	if p.dynamic {
		return
	}
	p.root = p.root.target()
	p.nodes = nil
	p.reach(p.root, map[*node]bool{})
}

// reach gives the nodes that a node leads to their numbers.
func (p *Program) reach(n *node, reached map[*node]bool) {
	if n == nil || reached[n] {
		return
	}
	reached[n] = true
	n.id, p.nodes = uint32(len(p.nodes)), append(p.nodes, n)
	itself, parts := n.edges()
	for _, to := range append(itself, parts...) {
		*to = (*to).target()
		p.reach(*to, reached)
	}
}

// target returns the node to which a node leads that only refers to others, or the node. References that lead
// nowhere but to themselves stay.
func (n *node) target() *node {
	passed := map[*node]bool{}
	for at := n; at != nil; at = at.ref {
		switch {
		case !at.refers():
			return at
		case passed[at]:
			return n
		}
		passed[at] = true
	}
	return n
}

// refers reports whether the node does nothing but refer to another one.
func (n *node) refers() bool {
	if n.ref == nil || n.kinds != 0 || n.constant != nil || n.enum != nil || n.format != nil ||
		n.object != nil || n.array != nil || n.text != nil || n.number != nil {
		return false
	}
	itself, parts := n.edges()
	return len(present(itself)) == 1 && len(present(parts)) == 0
}
