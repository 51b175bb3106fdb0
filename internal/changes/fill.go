package changes

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// Fill makes h the history of the store before a step, of so many steps at most, and fewer if their sums would
// take more than three eighths of the size of the store. It uses the memory of h again.
func (s *Store) Fill(h *History, to int64, steps int) {
	s.flush(to)
	h.reset(to-int64(steps), to)
	h.see(&s.history)
	if len(h.frames) > 0 {
		h.From = max(h.From, min(h.frames[0].step, to))
	}
	cells, most := 0, s.cellsOf(h)
	for i := len(h.frames) - 1; i >= 0 && h.frames[i].step >= h.From; i-- {
		if h.frames[i].step >= to {
			continue
		}
		if cells += h.frames[i].cells; cells > most {
			h.From = h.frames[i].step + 1
		}
	}
	h.fill()
	s.searched.Store(int64(h.bytes()))
}

// FillWindows is Fill for two windows; the ends are not included. The error says that they have more sums than
// a search may take.
func (s *Store) FillWindows(h *History, beforeFrom, beforeTo, from, to int64) error {
	s.flush(to)
	h.reset(beforeFrom, to)
	h.see(&s.history)
	kept, cells := h.frames[:0], 0
	for _, f := range h.frames {
		if f.step >= beforeFrom && f.step < beforeTo || f.step >= from && f.step < to {
			kept, cells = append(kept, f), cells+f.cells
		}
	}
	h.frames = kept
	if most := s.cellsOf(h); cells > most {
		return fmt.Errorf("the windows have %d sums of ten seconds and may have %d (set max_change_bytes): choose shorter windows", cells, most)
	}
	h.fill()
	s.searched.Store(int64(h.bytes()))
	return nil
}

// A search may take so much of the size of a store: bytes of a cell and of a key, with room that is left free.
const (
	searchEighths   = 3
	searchCellBytes = stepCellBytes*9/8 + 1
	searchKeyBytes  = infoBytes + spareCells*stepCellBytes
)

// spareCells is how many more cells than one in eight a key may have room for.
const spareCells = 16

// cellsOf returns how many cells a history may have.
func (s *Store) cellsOf(h *History) int {
	return max(s.searchBytes-len(h.places)*searchKeyBytes, 0) / searchCellBytes
}

// Release tells the store that the memory of a filled history is not used any more.
func (s *Store) Release() { s.searched.Store(0) }

// reset empties the history for the steps from one to another.
func (h *History) reset(from, to int64) {
	h.From, h.To = from, to
	for _, k := range h.keys {
		k.cells = k.cells[:0]
	}
	if h.index == nil {
		h.index = map[Key]*keyHistory{}
	}
}

// see notes the frames of a store and the keys of their numbers.
func (h *History) see(of *history) {
	of.mu.Lock()
	defer of.mu.Unlock()
	h.frames = append(h.frames[:0], of.frames...)
	h.places = append(h.places[:0], of.places...)
}

// fill reads the frames: first how many cells each key has, and then these.
func (h *History) fill() {
	h.byID = slices.Grow(h.byID[:0], len(h.places))[:len(h.places)]
	h.decode(func(k *keyHistory, _ int64, _ *Cell) { k.room++ })
	for _, k := range h.keys {
		if n := cap(k.cells); n < k.room || n > k.room+k.room/8+spareCells {
			k.cells = make([]stepCell, 0, k.room+k.room/16+spareCells/2)
		}
		k.room = 0
	}
	h.decode(func(k *keyHistory, step int64, cell *Cell) { k.add(int32(step-h.From), cell) })
	kept := h.keys[:0]
	for _, k := range h.keys {
		if len(k.cells) == 0 {
			delete(h.index, k.Key)
			continue
		}
		kept = append(kept, k)
	}
	clear(h.keys[len(kept):])
	h.keys = kept
	clear(h.frames)
	clear(h.places)
	clear(h.byID)
}

// decode calls f for each cell of the frames in the window.
func (h *History) decode(f func(k *keyHistory, step int64, cell *Cell)) {
	var cell Cell
	for _, fr := range h.frames {
		if fr.step < h.From || fr.step >= h.To {
			continue
		}
		for b := fr.data; len(b) > 0; {
			id, n := binary.Uvarint(b)
			b = cell.read(b[n:])
			k := h.byID[id]
			if k == nil {
				k = h.keyOf(h.places[id].info)
				h.byID[id] = k
			}
			f(k, fr.step, &cell)
		}
	}
}

// keyOf returns the history of a key, adding it if it is not there.
func (h *History) keyOf(info *Info) *keyHistory {
	k := h.index[info.Key]
	if k == nil {
		k = &keyHistory{Info: Info{Key: info.Key, First: info.First}}
		h.index[info.Key] = k
		h.keys = append(h.keys, k)
	}
	return k
}

// bytes returns about what the history takes.
func (h *History) bytes() int {
	cells := 0
	for _, k := range h.keys {
		cells += cap(k.cells)
	}
	return cells*stepCellBytes + len(h.keys)*infoBytes
}
