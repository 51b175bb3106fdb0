package share

import (
	"math/bits"
	"sync"
)

// Bytes is a budget of bytes that callers share. A caller may take what is free, as long as the
// reserve is left. Of the reserve it may take what it needs for an equal share. Its methods are safe
// for concurrent use.
//
// A caller within its share that finds no room has the largest caller told to give something back.
// If callers cannot be told, they keep what they have for as long as they like. Then the reserve is a
// quarter, and a caller gets of it until it has a quarter of what is free, or 8 KiB: each leaves
// something to those who come later.
type Bytes struct {
	size, reserve int64
	index         int
	shed          func(largest *Caller, need int64) // or nil

	mu      sync.Mutex // guards the rest, and the amounts
	used    int64
	holders int64 // callers that hold bytes
	// bySize has lists of the callers that hold bytes, by the number of bits of their amount.
	// A heap would cost more for each change, and the largest need not be found exactly.
	bySize [64]*byteAmount
}

// smallest is what each caller may have of the reserve, in bytes, as long as there is any.
const smallest = 8 << 10

// A byteAmount is what a caller holds of a budget.
type byteAmount struct {
	n          int64
	caller     *Caller
	prev, next *byteAmount
}

// Take takes n bytes for a caller, and reports whether they could be had. If they could not,
// and the caller would have no more than an equal share with them, Take first calls shed with
// the caller that holds most, or at least half as much as that one, and tries again. shed may
// call Give, and runs without a lock; largest is only valid during the call.
func (b *Bytes) Take(c *Caller, n int64) bool {
	b.mu.Lock()
	amount := &c.budgets[b.index]
	small := b.isSmall(amount, n)
	if b.take(c, amount, n, small) {
		b.mu.Unlock()
		return true
	}
	var largest *Caller
	if small && b.shed != nil {
		if l := b.largest(); l != nil && l != amount {
			largest = l.caller.Hold() // somebody has a reference: it holds bytes
		}
	}
	b.mu.Unlock()
	if largest == nil {
		return false
	}
	b.shed(largest, n)
	largest.Release()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.take(c, amount, n, b.isSmall(amount, n))
}

// Refuses reports whether Take would fail for n bytes just now, and would have nobody give back some.
func (b *Bytes) Refuses(c *Caller, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	amount := &c.budgets[b.index]
	small := b.isSmall(amount, n)
	return !b.has(amount, n, small) && (!small || b.shed == nil)
}

// isSmall reports whether a caller has no more than an equal share with n bytes more. The caller
// must hold b.mu.
func (b *Bytes) isSmall(amount *byteAmount, n int64) bool {
	holders := b.holders
	if amount.n == 0 {
		holders++
	}
	return amount.n+n <= b.size/(holders+1)
}

func (b *Bytes) take(c *Caller, amount *byteAmount, n int64, small bool) bool {
	if !b.has(amount, n, small) {
		return false
	}
	amount.caller = c
	b.change(amount, n)
	return true
}

// has reports whether there are n bytes for a caller. The caller must hold b.mu.
func (b *Bytes) has(amount *byteAmount, n int64, small bool) bool {
	free := b.size - b.used
	switch {
	case n > free:
		return false
	case n <= free-b.reserve: // it leaves the reserve
		return true
	}
	return small && (b.shed != nil || amount.n+n <= max(smallest, free/4))
}

// Give gives back n bytes of what a caller has taken.
func (b *Bytes) Give(c *Caller, n int64) {
	b.mu.Lock()
	b.change(&c.budgets[b.index], -n)
	b.mu.Unlock()
}

// change changes an amount. The caller must hold b.mu.
func (b *Bytes) change(a *byteAmount, by int64) {
	before, after := bits.Len64(uint64(a.n)), bits.Len64(uint64(a.n+by))
	a.n += by
	b.used += by
	if before == after {
		return
	}
	if before == 0 {
		b.holders++
	} else {
		if a.prev != nil {
			a.prev.next = a.next
		} else {
			b.bySize[before] = a.next
		}
		if a.next != nil {
			a.next.prev = a.prev
		}
		a.prev, a.next = nil, nil
	}
	if after == 0 {
		b.holders--
		a.caller = nil
		return
	}
	a.next = b.bySize[after]
	if a.next != nil {
		a.next.prev = a
	}
	b.bySize[after] = a
}

// largest returns an amount that is at least half of the largest one, or nil. The caller must
// hold b.mu.
func (b *Bytes) largest() *byteAmount {
	for i := len(b.bySize) - 1; i > 0; i-- {
		if a := b.bySize[i]; a != nil {
			return a
		}
	}
	return nil
}

// Used returns how many bytes are taken, and by how many callers.
func (b *Bytes) Used() (n int64, callers int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used, int(b.holders)
}

// Usage returns the state of the budget, in bytes.
func (b *Bytes) Usage() Usage {
	b.mu.Lock()
	defer b.mu.Unlock()
	return Usage{Size: int(b.size), Used: int(b.used), Holders: int(b.holders)}
}

// Largest returns the most that one of the callers holds, and who that is.
func (b *Bytes) Largest(all []*Caller) (held int, of Key) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range all {
		if n := int(c.budgets[b.index].n); n > held {
			held, of = n, c.key
		}
	}
	return held, of
}

// Held returns how many bytes a caller holds.
func (b *Bytes) Held(c *Caller) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return c.budgets[b.index].n
}

// Size returns the size of the budget.
func (b *Bytes) Size() int64 { return b.size }
