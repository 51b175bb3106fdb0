package jsonvalue

import "maps"

// memberParts are members of a long object, in parts, so that its map is made with the right size and need not grow. To put them into
// it at once is faster than to read one, and to wait for the memory of its place in the map, and to read the next.
type memberParts[V any] struct {
	parts [][]member[V]
	count int
}

type member[V any] struct {
	name  string
	value V
}

func (p *memberParts[V]) add(name string, value V) {
	if p.count%longObject == 0 {
		p.parts = append(p.parts, make([]member[V], 0, longObject))
	}
	last := &p.parts[len(p.parts)-1]
	*last = append(*last, member[V]{name, value})
	p.count++
}

// with returns a map of the members and of others that come before them.
func (p *memberParts[V]) with(others map[string]V) map[string]V {
	all := make(map[string]V, len(others)+p.count)
	maps.Copy(all, others)
	for _, part := range p.parts {
		for _, m := range part {
			all[m.name] = m.value
		}
	}
	return all
}
