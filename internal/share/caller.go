// Package share divides what a server has among its callers, so that none of them can take it
// from the others: concurrency slots ([Pool]), places in a queue ([Queue]), bytes ([Bytes]), and turns on
// the processors ([Turns]).
//
// A caller may use what nobody else uses, up to a reserve. The reserve is for callers that hold less
// than an equal share: the size divided by one more than the number of callers that hold something.
// It is a sixteenth, and a quarter of bytes that nobody can be told to give back.
//
// The package knows nothing of requests and sessions.
package share

import "sync/atomic"

// Bounds on how many pools and budgets keep their account in the caller itself.
const (
	maxPools   = 8
	maxBudgets = 4
	maxCounts  = 2
)

// A Caller is the record of one caller in a [Table]. It has what the caller holds of each pool
// and budget of the table. Its methods are safe for concurrent use.
type Caller struct {
	key   Key
	table *Table
	hash  uint64
	next  *Caller // in the bucket, or in the list of spare records; guarded by the shard
	refs  atomic.Int64

	accounts [maxPools]account      // each guarded by its pool
	budgets  [maxBudgets]byteAmount // each guarded by its budget
	counts   [maxCounts]atomic.Int64
}

// Key returns whose record it is. The caller of Key must hold a reference.
func (c *Caller) Key() Key { return c.key }

// Hold adds a reference and returns c. The caller of Hold must hold another reference.
func (c *Caller) Hold() *Caller {
	if c.refs.Add(1) == 1 {
		panic("share: the record of a caller was released before")
	}
	return c
}

// Release gives up a reference. With the last one the record is forgotten, and nothing may be
// held of a pool or a budget on its behalf.
func (c *Caller) Release() {
	for {
		n := c.refs.Load()
		if n == 1 {
			c.table.release(c)
			return
		}
		if c.refs.CompareAndSwap(n, n-1) {
			return
		}
	}
}
