package evaluate

import "math/bits"

// A verdict is what is known about a node and a value.
type verdict uint8

const (
	unknown verdict = iota
	valid
	invalid
)

func verdictOf(ok bool) verdict {
	if ok {
		return valid
	}
	return invalid
}

// A memo remembers verdicts about nodes, values and scopes. It is an open hash table that grows. At its
// largest size it forgets some verdicts, which costs time and nothing else: the number of steps is
// bounded anyway.
type memo struct {
	slots         []uint64 // a key with its verdict in the lowest bit; 0 is empty
	shift         int      // of a hash, to a slot
	most          int      // slots
	nodes, values uint64
	scopes        uint64 // for which there are keys
}

// Bounds of the slots of a memo, which take 8 bytes each. Half of one for each byte of the text are four
// bytes for each byte. A small value has no steps for more verdicts than leastMemo.
const (
	firstMemo  = 1 << 6
	leastMemo  = 1 << 13
	largeMemo  = 1 << 19
	memoGrowth = 4 // so that all tables before the last one take a third of it
	memoWindow = 8 // slots in which a key can be
)

// begin prepares a memo for a validation of a text with so many values by so many nodes. It allocates
// nothing.
func (m *memo) begin(text, values, nodes int) {
	m.most = min(max(1<<bits.Len(uint(text))>>2, leastMemo), largeMemo)
	m.nodes, m.values = uint64(nodes), uint64(values)
	m.scopes = 1 << 62 / (m.nodes * m.values)
}

// key returns a number of at most 62 bits that no other node, value and scope have, or 0 if there is none.
func (m *memo) key(node, value, scope uint32) uint64 {
	if uint64(scope) >= m.scopes {
		return 0
	}
	return (uint64(scope)*m.nodes+uint64(node))*m.values + uint64(value) + 1
}

// first returns the first slot in which a key can be.
func (m *memo) first(key uint64) int {
	const odd = 0x9e3779b97f4a7c15
	hash := key * odd
	return int((hash ^ hash>>32) * odd >> m.shift)
}

func (m *memo) find(key uint64) verdict {
	if key == 0 || len(m.slots) == 0 {
		return unknown
	}
	for i, first := 0, m.first(key); i < memoWindow; i++ {
		switch slot := m.slots[(first+i)&(len(m.slots)-1)]; {
		case slot>>1 == key:
			return verdictOf(slot&1 == 0)
		case slot == 0:
			return unknown
		}
	}
	return unknown
}

// put remembers a verdict.
func (m *memo) put(key uint64, ok bool) {
	if key == 0 {
		return
	}
	word := key << 1
	if !ok {
		word |= 1
	}
	for !m.insert(word) {
		if len(m.slots) == m.most {
			m.slots[m.first(key)] = word
			return
		}
		m.grow()
	}
}

// insert reports whether there was a slot.
func (m *memo) insert(word uint64) bool {
	if len(m.slots) == 0 {
		return false
	}
	for i, first := 0, m.first(word>>1); i < memoWindow; i++ {
		if slot := &m.slots[(first+i)&(len(m.slots)-1)]; *slot == 0 || *slot>>1 == word>>1 {
			*slot = word
			return true
		}
	}
	return false
}

// grow makes room. In rare cases it forgets verdicts.
func (m *memo) grow() {
	old := m.slots
	size := max(memoGrowth*len(old), firstMemo)
	if size >= m.most/2 {
		size = m.most // without a large table before the last one
	}
	m.slots = make([]uint64, size)
	m.shift = 64 - bits.Len(uint(len(m.slots)-1))
	for _, word := range old {
		if word != 0 {
			m.insert(word)
		}
	}
}

// scopes are the sets of resources through which an evaluation can come, in the order in which it has
// entered them. Scope 0 is empty.
type scopes struct {
	list  []scopeEntry // from scope 1 on
	inner map[scopeEntry]uint32
}

// A scopeEntry is a scope: the one around it, and the resource that was entered last.
type scopeEntry struct {
	outer    uint32
	resource *resource
}

// enter returns the scope after a resource was entered.
func (s *scopes) enter(scope uint32, res *resource) uint32 {
	for at := scope; at != 0; at = s.list[at-1].outer {
		if s.list[at-1].resource == res {
			return scope
		}
	}
	entry := scopeEntry{scope, res}
	if s.inner == nil {
		s.inner = map[scopeEntry]uint32{}
	}
	if s.inner[entry] == 0 {
		s.list = append(s.list, entry)
		s.inner[entry] = uint32(len(s.list))
	}
	return s.inner[entry]
}

// outermost returns the node that the first resource of a scope has, or otherwise.
func (s *scopes) outermost(scope uint32, in func(*resource) *node, otherwise *node) *node {
	for at := scope; at != 0; at = s.list[at-1].outer {
		if n := in(s.list[at-1].resource); n != nil {
			otherwise = n
		}
	}
	return otherwise
}
