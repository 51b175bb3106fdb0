package evaluate

import (
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// array applies the keywords about arrays.
func (r *run) array(a *arrayRules, v uint32, marked *marks) bool {
	if !r.charge(stepsPerParts) {
		return false
	}
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
		if n.typeOnly && n.kinds&r.doc.kind(item) != 0 {
			ok = r.charge(1) && ok // as apply would: a text of 4 MiB has two million items
		} else {
			ok = r.applyPart(n, item, token{position: position}) && ok
		}
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

// firstItems is how many items are compared before more are read.
const firstItems = 1 << 10

// entryBits are the bits of an item in run.hashes that are its entry. The others are of its hash.
const entryBits = 1<<32 - 1

// duplicates returns the positions of two equal items, with the smallest second one, or 0 and 0. It sorts
// the items by their hashes, because a hash table takes more memory, and the cache has none of it. It
// sorts the first ones first, because equal items are often near.
func (r *run) duplicates(v uint32) (first, second int) {
	e := r.doc.entries[v]
	r.hashes = r.hashes[:0]
	item := v + 1
	for most := firstItems; item < e.next; most *= 4 {
		r.hashes = slices.Grow(r.hashes, min(most, int(e.size))-len(r.hashes))
		for ; item < e.next && len(r.hashes) < most; item = r.doc.entries[item].next {
			if !r.charge(stepsPerHash) {
				return 0, 0
			}
			r.hashes = append(r.hashes, r.hash(item)&^entryBits|uint64(item))
		}
		sortHashes(r.hashes, 64)
		if a, b := r.firstEqual(); b > 0 {
			return r.position(v, a), r.position(v, b)
		}
	}
	return 0, 0
}

// fewHashes is how many hashes are sorted by inserting one after the other.
const fewHashes = 32

// sortHashes sorts different numbers that are the same in all but so many low bits, of which the high
// ones are random. It takes a third of the time of slices.Sort for half a million.
func sortHashes(all []uint64, bits int) {
	if len(all) <= fewHashes {
		for i, h := range all {
			for ; i > 0 && all[i-1] > h; i-- {
				all[i] = all[i-1]
			}
			all[i] = h
		}
		return
	}
	bits -= 8
	var ends, next [256]int
	for _, h := range all {
		ends[byte(h>>bits)]++
	}
	sum := 0
	for i, n := range ends {
		next[i] = sum
		sum += n
		ends[i] = sum
	}
	begin := 0
	for i := range ends {
		for next[i] < ends[i] {
			h := all[next[i]]
			for to := byte(h >> bits); int(to) != i; to = byte(h >> bits) {
				all[next[to]], h = h, all[next[to]]
				next[to]++
			}
			all[next[i]] = h
			next[i]++
		}
		sortHashes(all[begin:ends[i]], bits)
		begin = ends[i]
	}
}

// firstEqual returns two equal items of the sorted ones, of which no two equal ones have a smaller second
// one, or 0 and 0.
func (r *run) firstEqual() (a, b uint32) {
	for from := 0; from < len(r.hashes); {
		to := from + 1
		for ; to < len(r.hashes) && (r.hashes[from]^r.hashes[to])&^entryBits == 0; to++ {
			second := uint32(r.hashes[to])
			if b > 0 && second > b {
				continue
			}
			for i := from; i < to; i++ {
				if r.err == nil && r.equal(uint32(r.hashes[i]), second) {
					a, b = uint32(r.hashes[i]), second
					break
				}
			}
		}
		from = to
	}
	return a, b
}

// position returns the position of an item.
func (r *run) position(array, item uint32) (position int) {
	for at := array + 1; at < item; at = r.doc.entries[at].next {
		position++
	}
	return position
}
