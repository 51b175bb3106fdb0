package changes

import (
	"math"
	"slices"
)

// History is what [Find] looks at: the sums of each key in the steps from From to To, that one not
// included.
type History struct {
	From, To int64
	keys     []*keyHistory
	index    map[Key]*keyHistory
}

type keyHistory struct {
	Info
	cells []stepCell
}

type stepCell struct {
	step int // since History.From
	Cell
}

// NewHistory returns an empty history of the steps from one to another, that one not included.
func NewHistory(from, to int64) *History {
	return &History{From: from, To: to, index: map[Key]*keyHistory{}}
}

// History returns the history of the store before a step, of so many steps at most.
func (s *Store) History(to int64, steps int) *History {
	from := to - int64(steps)
	if oldest := s.Stats().Oldest; !oldest.IsZero() {
		from = max(from, min(Step(oldest), to))
	}
	h := NewHistory(from, to)
	s.Read(from, to, h.Add)
	return h
}

// Add adds the sums of a key in one step.
func (h *History) Add(step int64, info *Info, cell *Cell) {
	if step < h.From || step >= h.To {
		return
	}
	k := h.index[info.Key]
	if k == nil {
		k = &keyHistory{Info: Info{Key: info.Key, First: info.First}}
		h.index[info.Key] = k
		h.keys = append(h.keys, k)
	}
	at := int(step - h.From)
	if n := len(k.cells); n > 0 && k.cells[n-1].step == at {
		k.cells[n-1].Add(cell)
		return
	}
	k.cells = append(k.cells, stepCell{at, *cell})
}

func (h *History) steps() int { return int(h.To - h.From) }

// A series has a measure of a part of the traffic in each step, as sums from the beginning: element i is
// the sum before step i.
type series struct{ sum, calls []float64 }

// series returns the series of the keys that match.
func (h *History) series(m *measure, matches func(*Key) bool) *series {
	n := h.steps()
	s := &series{make([]float64, n+1), make([]float64, n+1)}
	for _, k := range h.keys {
		if !matches(&k.Key) {
			continue
		}
		for i := range k.cells {
			sum, calls := m.of(&k.Key, &k.cells[i].Cell)
			s.sum[k.cells[i].step+1] += sum
			s.calls[k.cells[i].step+1] += calls
		}
	}
	for i := range n {
		s.sum[i+1] += s.sum[i]
		s.calls[i+1] += s.calls[i]
	}
	return s
}

func (s *series) in(from, to int) (sum, calls float64) {
	return s.sum[to] - s.sum[from], s.calls[to] - s.calls[from]
}

// value returns the measure in a window, on a logarithmic scale with octaves, except for shares. ok is
// false if there is none.
func (s *series) value(m *measure, from, to int) (value float64, ok bool) {
	sum, calls := s.in(from, to)
	switch m.kind {
	case kindRate:
		return math.Log2(calls/float64(to-from) + 1.0/blockSteps), true
	case kindLog:
		return sum / calls / 16, calls > 0
	case kindMean:
		return math.Log2(sum/calls + m.small), calls > 0
	}
	return sum / calls, calls > 0
}

// blocks returns the values of the blocks of a window.
func (s *series) blocks(m *measure, from, to, length int) (values []float64) {
	for to-from >= length {
		if v, ok := s.value(m, from, from+length); ok {
			values = append(values, v)
		}
		from += length
	}
	return values
}

func median(values []float64) float64 {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}

func mean(values []float64) (mean float64) {
	for _, v := range values {
		mean += v / float64(len(values))
	}
	return mean
}

func deviation(values []float64) float64 {
	squares, mean := 0.0, mean(values)
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	return math.Sqrt(squares / float64(max(len(values)-1, 1)))
}
