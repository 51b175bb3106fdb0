package share

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// A Table has a record for each caller that something holds a reference to. Callers that have
// gone need no memory. Its methods are safe for concurrent use.
type Table struct {
	seed    maphash.Seed
	shards  [numShards]shard
	pools   int
	budgets int
	counts  int
	len     atomic.Int64
}

const (
	numShards  = 16
	minBuckets = 16 // of a shard
	maxSpare   = 16 // records that a shard keeps for the next caller
)

// A shard is a hash table whose records are linked. The plain version is a map. Most requests
// add a record and remove it again, and the map would hash the key for each step.
type shard struct {
	mu      sync.Mutex
	buckets []*Caller
	n       int
	spare   *Caller
	spares  int
	_       [64]byte // keeps two locks off one cache line
}

// NewTable returns an empty table.
func NewTable() *Table {
	t := &Table{seed: maphash.MakeSeed()}
	for i := range t.shards {
		t.shards[i].buckets = make([]*Caller, minBuckets)
	}
	return t
}

// Len returns the number of callers that have a record.
func (t *Table) Len() int { return int(t.len.Load()) }

// Get returns the record of a caller and adds a reference to it, which the caller of Get must
// release.
func (t *Table) Get(k Key) *Caller {
	hash := maphash.Comparable(t.seed, k)
	sh := t.shard(hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	bucket := sh.bucket(hash)
	for c := *bucket; c != nil; c = c.next {
		if c.hash == hash && c.key == k {
			c.refs.Add(1)
			return c
		}
	}
	c := sh.spare
	if c != nil {
		sh.spare = c.next
		sh.spares--
	} else {
		c = &Caller{table: t}
	}
	c.key, c.hash, c.next = k, hash, *bucket
	c.refs.Store(1)
	*bucket = c
	sh.n++
	t.len.Add(1)
	if sh.n > 2*len(sh.buckets) {
		sh.resize(2 * len(sh.buckets))
	}
	return c
}

// release gives up the last reference, unless there is another one by now.
func (t *Table) release(c *Caller) {
	sh := t.shard(c.hash)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if c.refs.Add(-1) > 0 {
		return
	}
	at := sh.bucket(c.hash)
	for *at != c {
		at = &(*at).next
	}
	*at, c.next = c.next, nil
	c.key = Key{} // its strings
	if sh.spares < maxSpare {
		c.next, sh.spare = sh.spare, c
		sh.spares++
	}
	sh.n--
	t.len.Add(-1)
	if len(sh.buckets) > minBuckets && sh.n < len(sh.buckets)/8 {
		sh.resize(len(sh.buckets) / 2)
	}
}

func (t *Table) shard(hash uint64) *shard { return &t.shards[hash%numShards] }

// bucket returns the bucket of a hash. The number of buckets is a power of two. The caller must
// hold sh.mu.
func (sh *shard) bucket(hash uint64) **Caller {
	return &sh.buckets[hash/numShards&uint64(len(sh.buckets)-1)]
}

func (sh *shard) resize(n int) {
	old := sh.buckets
	sh.buckets = make([]*Caller, n)
	for _, c := range old {
		for c != nil {
			next, bucket := c.next, sh.bucket(c.hash)
			c.next, *bucket = *bucket, c
			c = next
		}
	}
}

// Pool returns a pool of so many slots for the callers of the table. A table has eight at most.
// The method must be called before the first caller has a record.
func (t *Table) Pool(size int) *Pool {
	if t.pools == maxPools {
		panic("share: a table has no room for another pool")
	}
	t.pools++
	return &Pool{size: size, reserve: reserve(size), index: t.pools - 1}
}

// Turns returns turns for the callers of the table: so many are held at once, each for a slice at least.
// They count as a pool, and the method must be called before the first caller has a record.
func (t *Table) Turns(size int, slice time.Duration) *Turns {
	p := t.Pool(size)
	p.reserve = 0
	return &Turns{pool: p, slice: slice}
}

// Bytes returns a budget of so many bytes for the callers of the table. A table has four at
// most. The method must be called before the first caller has a record. shed may be nil; see
// [Bytes.Take].
func (t *Table) Bytes(size int64, shed func(largest *Caller, need int64)) *Bytes {
	if t.budgets == maxBudgets {
		panic("share: a table has no room for another budget")
	}
	t.budgets++
	b := &Bytes{size: size, reserve: reserve(size), index: t.budgets - 1, shed: shed}
	if shed == nil {
		b.reserve = size / 4
	}
	return b
}

// Count returns a count of things of which there should be no more than size. A table has two
// at most. The method must be called before the first caller has a record.
func (t *Table) Count(size int) *Count {
	if t.counts == maxCounts {
		panic("share: a table has no room for another count")
	}
	t.counts++
	return &Count{table: t, size: int64(size), reserve: int64(reserve(size)), index: t.counts - 1}
}

// reserve is how much of a size only callers below an equal share may take: a sixteenth, at
// least one, and nothing of a size below four.
func reserve[T int | int64](size T) T {
	if size < 4 {
		return 0
	}
	return max(1, size/16)
}
