package evaluate

import "github.com/santhosh-tekuri/jsonschema/v6/kind"

// array applies the keywords about arrays.
func (r *run) array(a *arrayRules, v uint32, marked *marks) bool {
	count, ok := int(r.doc.entries[v].size), true
	if a.minItems != nil && count < *a.minItems {
		ok = r.fail(func() any { return &kind.MinItems{Got: count, Want: *a.minItems} })
	}
	if a.maxItems != nil && count > *a.maxItems {
		ok = r.fail(func() any { return &kind.MaxItems{Got: count, Want: *a.maxItems} }) && ok
	}
	if a.unique && count > 1 && (ok || r.collects()) {
		if first, second := r.duplicates(v); second > 0 {
			ok = r.fail(func() any { return &kind.UniqueItems{Duplicates: [2]int{first, second}} }) && ok
		}
	}
	if ok || r.collects() {
		ok = r.items(a, v, marked) && ok
	}
	if a.closed && count > len(a.prefix) && (ok || r.collects()) {
		ok = r.fail(func() any { return &kind.AdditionalItems{Count: count - len(a.prefix)} }) && ok
	}
	if a.contains != nil && (ok || r.collects()) {
		ok = r.contains(a, v, marked) && ok
	}
	return ok
}

// items applies the schemas of the items.
func (r *run) items(a *arrayRules, v uint32, marked *marks) bool {
	if a.rest != nil || a.closed || a.open {
		marked.markAll()
	}
	ok := true
	e := r.doc.entries[v]
	for item, position := v+1, 0; item < e.next && (ok || r.collects()); position++ {
		n := a.rest
		if position < len(a.prefix) {
			n = a.prefix[position]
			marked.mark(position)
		}
		if n == nil {
			break
		}
		ok = r.applyPart(n, item, token{position: position}) && ok
		item = r.doc.entries[item].next
	}
	return ok
}

// contains applies contains, minContains and maxContains.
func (r *run) contains(a *arrayRules, v uint32, marked *marks) bool {
	least, matched := 1, 0
	if a.minContains != nil {
		least = *a.minContains
	}
	marks := a.marksContained && marked != nil && !marked.all
	faults := r.faults
	r.faults = nil
	e := r.doc.entries[v]
	for item, position := v+1, 0; item < e.next && r.err == nil; position++ {
		if matched >= least && a.maxContains == nil && !marks {
			break
		}
		if r.apply(a.contains, item, nil) {
			matched++
			if marks {
				marked.mark(position)
			}
		}
		item = r.doc.entries[item].next
	}
	r.faults = faults
	ok := matched >= least || r.fail(func() any {
		if a.minContains == nil {
			return &kind.Contains{}
		}
		return &Contained{Want: least, Got: matched}
	})
	if a.maxContains != nil && matched > *a.maxContains {
		ok = r.fail(func() any { return &Contained{Want: *a.maxContains, Got: matched, AtMost: true} }) && ok
	}
	return ok
}

// duplicates returns the positions of two equal items, with the smallest second one, or 0 and 0.
func (r *run) duplicates(v uint32) (first, second int) {
	e := r.doc.entries[v]
	table := newItemTable(int(e.size))
	for item, position := v+1, 0; item < e.next; position++ {
		hash := uint32(r.hash(item) >> 16)
		if !r.charge(stepsPerHash) {
			return 0, 0
		}
		for slot := table.slot(hash); table.slots[slot].item != 0; slot = table.next(slot) {
			if s := table.slots[slot]; s.hash == hash && r.equal(s.item, item) {
				return r.position(v, s.item), position
			}
		}
		table.put(hash, item)
		item = r.doc.entries[item].next
	}
	return 0, 0
}

// position returns the position of an item.
func (r *run) position(array, item uint32) (position int) {
	for at := array + 1; at < item; at = r.doc.entries[at].next {
		position++
	}
	return position
}

// An itemTable is an open hash table of items. It grows, because an array whose first items are equal
// needs none.
type itemTable struct {
	slots []itemSlot
	count int
}

type itemSlot struct{ hash, item uint32 }

func newItemTable(items int) *itemTable {
	size := 16
	for size < 2*items && size < maxIdleEntries {
		size *= 2
	}
	return &itemTable{slots: make([]itemSlot, size)}
}

func (t *itemTable) slot(hash uint32) int { return int(hash) & (len(t.slots) - 1) }
func (t *itemTable) next(slot int) int    { return (slot + 1) & (len(t.slots) - 1) }

func (t *itemTable) put(hash, item uint32) {
	if t.count++; 2*t.count > len(t.slots) {
		old := t.slots
		t.slots = make([]itemSlot, 2*len(old))
		for _, s := range old {
			if s.item != 0 {
				t.insert(s)
			}
		}
	}
	t.insert(itemSlot{hash, item})
}

func (t *itemTable) insert(s itemSlot) {
	slot := t.slot(s.hash)
	for t.slots[slot].item != 0 {
		slot = t.next(slot)
	}
	t.slots[slot] = s
}
