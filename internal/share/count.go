package share

import "sync/atomic"

// A Count is a number of things of each caller that cannot be refused when they come, so that
// something earlier is refused: more of them are admitted by the rule of a [Pool]. It needs no
// lock. Its methods are safe for concurrent use.
type Count struct {
	table         *Table
	size, reserve int64
	index         int

	_     [64]byte // keeps what each request changes off the other fields' cache lines
	total atomic.Int64
	_     [64]byte
}

// Add counts n more things of a caller.
func (k *Count) Add(c *Caller, n int64) {
	c.counts[k.index].Add(n)
	k.total.Add(n)
}

// Total returns how many things there are.
func (k *Count) Total() int { return int(k.total.Load()) }

// Allows reports whether there may be more things of a caller. The equal share is that of all
// callers that have a record.
func (k *Count) Allows(c *Caller) bool {
	free := k.size - k.total.Load()
	if free > k.reserve {
		return true
	}
	held := c.counts[k.index].Load()
	return free > 0 && (held == 0 || held < k.size/int64(k.table.Len()+1) && held < free/4)
}
