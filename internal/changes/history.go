package changes

import (
	"encoding/binary"
	"slices"
	"sync"
	"time"
)

// A history has the steps that are over, the oldest first, and their keys.
type history struct {
	mu      sync.Mutex // guards the rest
	max     int        // bytes
	live    func() int // the bytes of the shards
	frames  []frame
	bytes   int // of frames and keys
	known   map[Key]*Info
	keys    int     // of known that are not common
	maxKeys int     // bound of keys
	places  []place // by the number that frames have for a key
	free    []int   // places without a key
}

// A place has the key of a number in frames. A key that was merged into another one leaves its place to
// that.
type place struct {
	info *Info
	last int64 // the latest step with this number, after its key was merged; else 0
}

// An Info is a key of the history.
type Info struct {
	Key
	// First is when the key was seen first.
	First time.Time

	id     int
	last   int64  // the latest step with a request
	calls  uint64 // since First
	common bool
	gone   bool // it is not in the history any more
}

// A frame has the sums of one shard in one step.
type frame struct {
	step  int64
	cells int
	data  []byte
}

func (f *frame) add(info *Info, cell Cell) {
	f.data = binary.AppendUvarint(f.data, uint64(info.id))
	f.data = cell.append(f.data)
	f.cells++
	info.last, info.calls = max(info.last, f.step), info.calls+cell.Calls
}

func (h *history) init(maxBytes, maxKeys int, live func() int) {
	h.max, h.maxKeys, h.live, h.known = maxBytes, maxKeys, live, map[Key]*Info{}
}

// A shard may add so many new keys in one step: a part of what is free, and one more if little is free.
const freeShare = 4 * numShards

// budget returns how many new keys a shard may add. The caller must hold h.mu.
func (h *history) budget() int { return max((h.maxKeys/2-h.keys)/freeShare, 1) }

// take adds the key of an entry. It returns nil if there is no room for the key: the budget is spent, or
// the history is full and no key has fewer requests. The caller must hold h.mu.
func (h *history) take(e *entry, budget *int) *Info {
	if e.common {
		return h.add(e)
	}
	if *budget == 0 {
		return nil
	}
	if h.keys >= h.maxKeys {
		victim := h.smallest()
		if victim == nil || victim.calls >= e.cell.Calls {
			return nil
		}
		h.merge(victim)
	}
	*budget--
	return h.add(e)
}

// add adds the key of an entry, or returns the one that is there.
func (h *history) add(e *entry) *Info { return h.of(e.key, e.first, e.common) }

// of returns a key, adding it if it is not there.
func (h *history) of(key Key, first int64, common bool) *Info {
	if info := h.known[key]; info != nil {
		return info
	}
	info := &Info{Key: key, First: time.Unix(0, first), common: common}
	if n := len(h.free); n > 0 {
		info.id, h.free = h.free[n-1], h.free[:n-1]
		h.places[info.id] = place{info: info}
	} else {
		info.id, h.places = len(h.places), append(h.places, place{info: info})
	}
	h.known[key] = info
	h.bytes += infoBytes
	if !common {
		h.keys++
	}
	return info
}

// mergedKey returns the key for the requests of a key that has no room: for all clients of its
// principal if there is one, or else for all callers.
func (h *history) mergedKey(key Key, first int64) *Info {
	if info := h.known[key.withoutClient()]; info != nil {
		return info
	}
	if key.Principal != "" && h.keys < h.maxKeys/2 {
		return h.of(key.withoutClient(), first, false)
	}
	return h.common(key, first)
}

// common returns the key for the requests of callers that are not kept apart.
func (h *history) common(key Key, first int64) *Info {
	key = key.withoutCaller()
	if h.known[key] == nil && len(h.known)-h.keys >= h.maxKeys { // a program with very many tools and errors
		key.Method, key.Target, key.Reason, key.Phase = Other, "", Other, ""
	}
	return h.of(key, first, true)
}

// smallest returns the key with the fewest requests.
func (h *history) smallest() (least *Info) {
	for _, info := range h.known {
		if !info.common && (least == nil || info.calls < least.calls) {
			least = info
		}
	}
	return least
}

// merge counts the requests of a key under the key for all callers.
func (h *history) merge(victim *Info) {
	to := h.common(victim.Key, victim.First.UnixNano())
	to.last, to.calls = max(to.last, victim.last), to.calls+victim.calls
	h.forget(victim)
	h.places[victim.id] = place{to, victim.last}
}

// forget removes a key, but not its place.
func (h *history) forget(info *Info) {
	info.gone = true
	delete(h.known, info.Key)
	h.bytes -= infoBytes
	if !info.common {
		h.keys--
	}
}

// append adds a frame, and removes the oldest ones if the store is full. The caller must hold h.mu.
func (h *history) append(f frame) {
	if len(f.data) == 0 {
		return
	}
	f.data = slices.Clip(slices.Clone(f.data))
	h.bytes += len(f.data) + frameBytes
	at := len(h.frames) // another shard may have closed a later step
	for at > 0 && h.frames[at-1].step > f.step {
		at--
	}
	h.frames = slices.Insert(h.frames, at, f)
	h.trim()
}

// trim removes the oldest steps, and the keys that no step has any more.
func (h *history) trim() {
	size := h.bytes + h.live()
	n := 0
	for n < len(h.frames)-1 && size > h.max {
		size -= len(h.frames[n].data) + frameBytes
		n++
	}
	if n == 0 {
		return
	}
	for i := range n {
		h.bytes -= len(h.frames[i].data) + frameBytes
	}
	h.frames = slices.Delete(h.frames, 0, n)
	oldest := h.frames[0].step
	for id, p := range h.places {
		switch {
		case p.info == nil || p.last >= oldest || p.last == 0 && p.info.last >= oldest:
			continue
		case p.last == 0:
			h.forget(p.info)
		}
		h.places[id] = place{}
		h.free = append(h.free, id)
	}
}

func (h *history) read(from, to int64, f func(step int64, info *Info, cell *Cell)) {
	h.mu.Lock()
	frames := slices.Clone(h.frames)
	places := slices.Clone(h.places)
	h.mu.Unlock()
	var cell Cell
	for _, fr := range frames {
		if fr.step < from || fr.step >= to {
			continue
		}
		for b := fr.data; len(b) > 0; {
			id, n := binary.Uvarint(b)
			b = cell.read(b[n:])
			f(fr.step, places[id].info, &cell)
		}
	}
}

func (h *history) stats() Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	stats := Stats{Bytes: h.bytes + h.live(), MaxBytes: h.max, Keys: len(h.known)}
	if len(h.frames) > 0 {
		stats.Oldest = StepTime(h.frames[0].step)
	}
	return stats
}
