package evaluate

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

type memoKey struct {
	node, value, scope uint32
}

// A memo remembers verdicts. It forgets some when it is full, which costs time and nothing else: the
// number of steps is bounded anyway.
type memo struct {
	slots []struct {
		memoKey
		verdict
	}
}

// Bounds of the slots of a memo, which take 16 bytes each.
const (
	minMemo = 1 << 6
	maxMemo = 1 << 18
)

func (m *memo) slot(key memoKey) int {
	hash := (uint64(key.node)<<32 | uint64(key.value)) * 0x9e3779b97f4a7c15
	return int((hash^hash>>29^uint64(key.scope))>>20) & (len(m.slots) - 1)
}

func (m *memo) find(key memoKey) verdict {
	if len(m.slots) == 0 {
		return unknown
	}
	if s := &m.slots[m.slot(key)]; s.memoKey == key {
		return s.verdict
	}
	return unknown
}

// put remembers a verdict about one of so many values.
func (m *memo) put(key memoKey, v verdict, values int) {
	if m.slots == nil {
		size := minMemo
		for size < 2*values && size < maxMemo {
			size *= 2
		}
		m.slots = make([]struct {
			memoKey
			verdict
		}, size)
	}
	s := &m.slots[m.slot(key)]
	s.memoKey, s.verdict = key, v
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
