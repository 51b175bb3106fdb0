package changes

import (
	"encoding/binary"
	"math/bits"
	"time"
)

// A Cell has the sums of the requests of one key in one step. Times are in microseconds.
type Cell struct {
	Calls                                   uint64
	Took, Queued, Running, Blocked, Writing uint64
	RequestBytes, AnswerBytes               uint64
	// LogRunning and LogAnswer are sums of logarithms (base 2, in sixteenths) of one plus the running
	// time, and of one plus the bytes of the answer.
	LogRunning, LogAnswer uint64
}

// open is a cell of the step that is not over. Its times are in nanoseconds.
type open struct{ Cell }

func (c *open) add(o *Observation) {
	c.Calls++
	c.Took += nanoseconds(o.Took)
	c.Queued += nanoseconds(o.Queued)
	c.Running += nanoseconds(o.Running)
	c.Blocked += nanoseconds(o.Blocked)
	c.Writing += nanoseconds(o.Writing)
	c.RequestBytes += uint64(max(o.RequestBytes, 0))
	c.AnswerBytes += uint64(max(o.AnswerBytes, 0))
	c.LogRunning += logarithm(uint64(max(o.Running, 0)) / 1000)
	c.LogAnswer += logarithm(uint64(max(o.AnswerBytes, 0)))
}

func nanoseconds(d time.Duration) uint64 { return uint64(max(d, 0)) }

// closed returns the cell with its times in microseconds, rounded.
func (c *open) closed() Cell {
	cell := c.Cell
	for _, sum := range cell.times() {
		*sum = (*sum + 500) / 1000
	}
	return cell
}

func (c *Cell) times() [5]*uint64 {
	return [5]*uint64{&c.Took, &c.Queued, &c.Running, &c.Blocked, &c.Writing}
}

// logarithm returns the logarithm of 1+n with base 2, in sixteenths.
func logarithm(n uint64) uint64 {
	n++
	octave := bits.Len64(n) - 1
	part := n << 4 >> octave & 15
	if octave > 59 { // the shift would lose bits
		part = n >> (octave - 4) & 15
	}
	return uint64(octave)<<4 + part
}

// Add adds the sums of another cell.
func (c *Cell) Add(other *Cell) {
	sums, others := c.sums(), other.sums()
	for i := range sums {
		*sums[i] += *others[i]
	}
}

func (c *Cell) sums() [numSums]*uint64 {
	return [numSums]*uint64{
		&c.Calls, &c.Took, &c.Queued, &c.Running, &c.Blocked, &c.Writing, &c.RequestBytes, &c.AnswerBytes, &c.LogRunning, &c.LogAnswer,
	}
}

const numSums = 10

// append appends the cell to a frame: which sums are not zero, and these sums.
func (c *Cell) append(b []byte) []byte {
	sums := c.sums()
	var present uint64
	for i, sum := range sums {
		if *sum != 0 {
			present |= 1 << i
		}
	}
	b = binary.AppendUvarint(b, present)
	for _, sum := range sums {
		if *sum != 0 {
			b = binary.AppendUvarint(b, *sum)
		}
	}
	return b
}

// read reads what append has written. It returns the rest of the frame.
func (c *Cell) read(b []byte) (rest []byte) {
	next := func() uint64 {
		v, n := binary.Uvarint(b)
		b = b[n:]
		return v
	}
	present := next()
	for i, sum := range c.sums() {
		*sum = 0
		if present>>i&1 != 0 {
			*sum = next()
		}
	}
	return b
}
