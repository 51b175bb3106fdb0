package evaluate

import (
	"fmt"
	"math"
	"slices"
)

// analyse finds the nodes about which the evaluation remembers verdicts, so that its time does not
// grow exponentially, and those that can lead to themselves.
func (p *Program) analyse() {
	applied, all := make([][]*node, len(p.nodes)), make([][]*node, len(p.nodes))
	for _, n := range p.nodes {
		applied[n.id] = n.applied(p)
		all[n.id] = append(applied[n.id][:len(applied[n.id]):len(applied[n.id])], n.below()...)
	}
	for _, n := range p.nodes {
		n.deep = len(all[n.id]) > 0
		n.simple = len(applied[n.id]) == 0 && n.unevaluatedProperties == nil && n.unevaluatedItems == nil
		n.typeOnly = n.kinds != 0 && n.simple && n.boolean == nil && n.constant == nil && n.enum == nil && n.format == nil &&
			n.object == nil && n.array == nil && n.text == nil && n.number == nil
	}
	p.levels = levelsOf(p.root, applied)
	p.markShared(applied, all)
	components := componentsOf(p.nodes, applied)
	size := map[int]int{}
	for _, n := range p.nodes {
		size[components[n.id]]++
	}
	for _, n := range p.nodes {
		n.loops = size[components[n.id]] > 1 || slices.Contains(applied[n.id], n)
	}
}

// levelsOf returns to how many levels of a value a node and those that it applies can come: all, if there is a cycle.
func levelsOf(root *node, applied [][]*node) int {
	levels := map[*node]int{}
	var visit func(*node) int
	visit = func(n *node) int {
		if known, begun := levels[n]; begun {
			return known
		}
		levels[n] = math.MaxInt32 // for a way back to it
		most := 0
		for _, to := range applied[n.id] {
			most = max(most, visit(to))
		}
		for _, to := range n.below() {
			most = max(most, min(visit(to)+1, math.MaxInt32))
		}
		levels[n] = most
		return most
	}
	return visit(root)
}

// markShared marks the nodes that may be applied to one value more than once. A node on a single cycle
// with a single way in is not: each time around it is applied to another value.
func (p *Program) markShared(applied, all [][]*node) {
	components := componentsOf(p.nodes, all)
	within, without, self := make([]int, len(p.nodes)), make([]int, len(p.nodes)), make([]int, len(p.nodes)) // edges to a node
	ways := map[int]int{components[p.root.id]: 1}                                                            // into a component
	without[p.root.id]++
	for _, n := range p.nodes {
		for _, to := range all[n.id] {
			if components[n.id] == components[to.id] {
				within[to.id]++
			} else {
				without[to.id]++
				ways[components[to.id]]++
			}
		}
		for _, to := range applied[n.id] {
			self[to.id]++
		}
	}
	for _, n := range p.nodes {
		n.shared = len(all[n.id]) > 0 && (within[n.id] > 1 || ways[components[n.id]] > 1 && without[n.id] > 0)
		n.branches = len(applied[n.id]) > 0 && self[n.id] > 1
		n.shared = n.shared || n.branches
	}
}

// componentsOf returns the number of the strongly connected component of each node, by Tarjan's
// algorithm.
func componentsOf(nodes []*node, edges [][]*node) []int {
	index, low, component := make([]int, len(nodes)), make([]int, len(nodes)), make([]int, len(nodes))
	var stack []*node
	count, components := 0, 0
	var visit func(*node)
	visit = func(n *node) {
		count++
		index[n.id], low[n.id] = count, count
		stack = append(stack, n)
		for _, to := range edges[n.id] {
			if index[to.id] == 0 {
				visit(to)
				low[n.id] = min(low[n.id], low[to.id])
			} else if component[to.id] == 0 { // on the stack
				low[n.id] = min(low[n.id], index[to.id])
			}
		}
		if low[n.id] != index[n.id] {
			return
		}
		components++
		for {
			last := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if component[last.id] = components; last == n {
				return
			}
		}
	}
	for _, n := range nodes {
		if index[n.id] == 0 {
			visit(n)
		}
	}
	return component
}

// smallText is the number of bytes of a text that any pattern should be able to match.
const smallText = 1 << 10

// Doubts returns what the schema has that can make the validation of a small value take more than so
// many steps.
func (p *Program) Doubts(steps int) (doubts []string) {
	for _, n := range p.nodes {
		if n.loops {
			doubts = append(doubts, "a schema refers to itself without a step into the value")
			break
		}
	}
	if n := p.costliest(); n > steps {
		doubts = append(doubts, fmt.Sprintf("unevaluatedProperties or unevaluatedItems make it necessary to evaluate %d schemas for one value", n))
	}
	for _, n := range p.nodes {
		for _, pattern := range n.patterns() {
			if pattern.stepsFor(smallText) > steps {
				doubts = append(doubts, fmt.Sprintf("the pattern %.60q can be in %d states at once", pattern.text, pattern.states))
			}
		}
	}
	return doubts
}

func (n *node) patterns() (all []*pattern) {
	if n.text != nil && n.text.pattern != nil {
		all = append(all, n.text.pattern)
	}
	if n.object != nil {
		for _, rule := range n.object.patterns {
			all = append(all, rule.pattern)
		}
	}
	return all
}

// costliest returns how many nodes a node with unevaluatedProperties or unevaluatedItems evaluates for
// one value, at most. Verdicts are not enough for it, so that none can be remembered.
func (p *Program) costliest() (most int) {
	costs := make([]int, len(p.nodes))
	var cost func(*node) int
	cost = func(n *node) int {
		if costs[n.id] == 0 {
			costs[n.id] = 1 // for what loops
			sum := 1
			for _, to := range n.applied(p) {
				sum = min(sum+cost(to), math.MaxInt32)
			}
			costs[n.id] = sum
		}
		return costs[n.id]
	}
	for _, n := range p.nodes {
		if n.unevaluatedProperties != nil || n.unevaluatedItems != nil {
			most = max(most, cost(n))
		}
	}
	return most
}
