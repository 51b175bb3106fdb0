package changes

import (
	"cmp"
	"iter"
	"slices"
	"strings"
)

// idleSteps is how many steps without a request an entry stays in its shard. Its history stays longer.
const idleSteps = 60

func cloned(text string) string { return strings.Clone(text) }

// close writes the sums of the step into the history, and begins anew. The caller must hold sh.mu.
//
// Keys that the history does not know yet come last, those with the most requests first. If the
// history does not take a key, its requests are counted under a key with [Other], and the entry ends.
func (sh *shard) close(h *history) {
	if sh.step == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	f := frame{step: sh.step}
	var fresh []*entry
	merged := map[*Info]*Cell{}
	for e := range sh.all() {
		if e.cell.Calls == 0 {
			e.idle++
			continue
		}
		e.idle = 0
		if e.info == nil || e.info.gone {
			e.info = h.known[e.key]
		}
		if e.info == nil {
			fresh = append(fresh, e)
			continue
		}
		f.add(e.info, e.cell.closed())
		e.cell = open{}
	}
	slices.SortFunc(fresh, func(a, b *entry) int { return cmp.Compare(b.cell.Calls, a.cell.Calls) })
	budget := h.budget()
	for _, e := range fresh {
		cell := e.cell.closed()
		e.info = h.take(e, &budget)
		if e.info != nil {
			f.add(e.info, cell)
			e.cell = open{}
			continue
		}
		sh.merged.Add(cell.Calls)
		to := h.mergedKey(e.key, e.first)
		if sum := merged[to]; sum != nil {
			sum.Add(&cell)
		} else {
			merged[to] = &cell
		}
		e.idle = idleSteps + 1
	}
	sh.removeIdle()
	for to, cell := range merged {
		f.add(to, *cell)
	}
	h.append(f)
}

// all returns all entries.
func (sh *shard) all() iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for _, e := range sh.entries {
			for ; e != nil; e = e.next {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// removeIdle removes the entries that were idle for too long.
func (sh *shard) removeIdle() {
	for hash, first := range sh.entries {
		var kept *entry
		for e := first; e != nil; {
			next := e.next
			if e.idle > idleSteps {
				sh.recycle(e)
			} else {
				e.next, kept = kept, e
			}
			e = next
		}
		if kept == nil {
			delete(sh.entries, hash)
		} else {
			sh.entries[hash] = kept
		}
	}
}

// recycle ends an entry that is in the map no more.
func (sh *shard) recycle(e *entry) {
	if e.common {
		sh.common--
	} else {
		sh.own--
	}
	*e = entry{}
	if len(sh.spare) < spareEntries {
		sh.spare = append(sh.spare, e)
		return
	}
	sh.size.Add(-1)
}

// spareEntries is how many entries a shard keeps for later keys.
const spareEntries = 16
