package changes

import (
	"math"
	"slices"
)

// History is what [Find] looks at: the sums of each key in the steps from From to To, that one not
// included. The zero value is empty. [Store.Fill] fills it. It is not safe for concurrent use.
type History struct {
	From, To int64
	keys     []*keyHistory
	index    map[Key]*keyHistory

	// Memory that the next search uses again.
	frames []frame
	places []place
	byID   []*keyHistory // by the number in frames
	spare  []*series     // that are not in use
	spans  []scored      // of candidates
}

type keyHistory struct {
	Info
	cells []stepCell
	room  int // how many there will be
}

// A stepCell has the sums of one step that measures need. Its numbers have 24 bits: a server has very many of them.
type stepCell struct {
	step                                                                          int32 // since History.From
	calls, running, queued, blocked, writing, requestBytes, logRunning, logAnswer float32
}

// stepCellBytes is the size of a stepCell.
const stepCellBytes = 36

// add adds the sums of a cell.
func (c *stepCell) add(cell *Cell) {
	c.calls += float32(cell.Calls)
	c.running += float32(cell.Running)
	c.queued += float32(cell.Queued)
	c.blocked += float32(cell.Blocked)
	c.writing += float32(cell.Writing)
	c.requestBytes += float32(cell.RequestBytes)
	c.logRunning += float32(cell.LogRunning)
	c.logAnswer += float32(cell.LogAnswer)
}

// each calls f for the steps of a key with a measure of them, and the calls that it is about.
func (k *keyHistory) each(m *measure, f func(step int, sum, calls float64)) {
	read, about := m.of(&k.Key)
	if !about {
		return
	}
	for i := range k.cells {
		c, sum := &k.cells[i], float32(0)
		if read != nil {
			sum = read(c)
		}
		f(int(c.step), float64(sum), float64(c.calls))
	}
}

// add adds the sums of a step. The cells of a step come one after the other.
func (k *keyHistory) add(step int32, cell *Cell) {
	if n := len(k.cells); n == 0 || k.cells[n-1].step != step {
		k.cells = append(k.cells, stepCell{step: step})
	}
	k.cells[len(k.cells)-1].add(cell)
}

func (h *History) steps() int { return int(h.To - h.From) }

// A series has a measure of a part of the traffic in each step, as sums from the beginning: element i is
// the sum before step i.
type series struct{ sum, calls []float64 }

// series returns the series of the keys that match.
func (h *History) series(m *measure, matches func(*Key) bool) *series {
	n := h.steps()
	s := h.emptySeries()
	for _, k := range h.keys {
		if !matches(&k.Key) {
			continue
		}
		k.each(m, func(step int, sum, calls float64) {
			s.sum[step+1] += sum
			s.calls[step+1] += calls
		})
	}
	for i := range n {
		s.sum[i+1] += s.sum[i]
		s.calls[i+1] += s.calls[i]
	}
	return s
}

func (h *History) emptySeries() (s *series) {
	n := h.steps() + 1
	if last := len(h.spare) - 1; last >= 0 {
		s, h.spare = h.spare[last], h.spare[:last]
	}
	if s == nil || cap(s.sum) < n {
		s = &series{make([]float64, n), make([]float64, n)}
	}
	s.sum, s.calls = s.sum[:n], s.calls[:n]
	clear(s.sum)
	clear(s.calls)
	return s
}

// done gives back the memory of a series that is not used any more.
func (h *History) done(s *series) { h.spare = append(h.spare, s) }

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
	for ; to-from >= length; from += length {
		if v, ok := s.value(m, from, from+length); ok {
			values = append(values, v)
		}
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
