package share

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// A Pool is a number of concurrency slots that callers share. A caller may take a free slot as
// long as more than the reserve is free. Of the reserve it may take a slot if it holds none, or
// less than an equal share and less than a quarter of what is free: so each caller that comes
// takes a fifth of the reserve at most, and leaves the rest to those who come later. A request
// that gets no slot waits. A free slot goes to the caller that holds the fewest slots, and among
// those to the one that was served longest ago; the requests of one caller are served in their
// order. So no caller waits behind the backlog of another one. Its methods are safe for
// concurrent use.
//
// Requests may need several slots at once ([Pool.AcquireN]). The first that waits gets what is freed
// until it has enough, so that it does not starve.
//
// A connection without an address (see [KeyOfConnection]) may take the reserve too while it is
// the only caller: nobody else can reach such a process.
type Pool struct {
	size, reserve int
	spared        int // slots that stay free while several callers hold or want one
	perCaller     int // what one caller may hold at most; 0 is no bound
	index         int // of the account in each Caller; -1: accounts are in others

	mu      sync.Mutex // guards the rest, and the accounts
	used    int
	holders int // callers that hold slots
	waiting accounts
	waiters int
	turn    uint64 // of the last service
	others  map[*Caller]*account
	spare   []*account
}

// An account is what a caller has of a pool.
type account struct {
	held        int
	turn        uint64  // when it was served last, or began to wait
	position    int     // in Pool.waiting
	first, last *waiter // in the order of arrival
}

// A waiter is a request that waits for a slot.
type waiter struct {
	caller     *Caller
	n          int // slots that it needs
	prev, next *waiter
	granted    chan struct{} // gets a value when it has them
	has        bool          // it has them
	timer      *time.Timer   // of [Turns]
}

func newWaiter(n int) *waiter { return &waiter{n: n, granted: make(chan struct{}, 1)} }

// NewPool returns a pool of so many slots for the callers of any table.
func NewPool(size int) *Pool {
	return &Pool{size: size, reserve: reserve(size), index: -1, others: map[*Caller]*account{}}
}

// Cap bounds what each caller may hold, and returns p. 0 is no bound. It must be called before the
// pool is used.
func (p *Pool) Cap(perCaller int) *Pool {
	p.perCaller = perCaller
	return p
}

// TryAcquire takes a slot, and reports whether there was one for this caller. It does not
// overtake requests of the same caller that wait.
func (p *Pool) TryAcquire(c *Caller) bool { return p.TryAcquireN(c, 1) }

// TryAcquireN is TryAcquire for n slots, which must not be more than the pool has. It overtakes no
// request of a caller that holds as little.
func (p *Pool) TryAcquireN(c *Caller, n int) bool {
	p.mu.Lock()
	a := p.account(c)
	ok := p.mayEnter(c, a, n)
	if ok {
		p.take(a, n)
	} else {
		p.forget(c, a)
	}
	p.mu.Unlock()
	return ok
}

// TakeFree takes a slot if one is free, also of the reserve, and reports whether it did. It is for
// a caller that has just had a slot freed.
func (p *Pool) TakeFree(c *Caller) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used == p.size {
		return false
	}
	a := p.account(c)
	p.take(a, 1)
	if a.first != nil {
		heap.Fix(&p.waiting, a.position)
	}
	return true
}

// Acquire takes a slot and waits for one if need be. It returns the cause of ctx if that ends
// first, and then holds no slot.
func (p *Pool) Acquire(ctx context.Context, c *Caller) error { return p.AcquireN(ctx, c, 1) }

// AcquireN is Acquire for n slots, which must not be more than the pool has.
func (p *Pool) AcquireN(ctx context.Context, c *Caller, n int) error {
	p.mu.Lock()
	a := p.account(c)
	if p.mayEnter(c, a, n) {
		p.take(a, n)
		p.mu.Unlock()
		return nil
	}
	w := newWaiter(n)
	p.enqueue(c, a, w)
	p.mu.Unlock()
	select {
	case <-w.granted:
		if ctx.Err() == nil {
			return nil
		}
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.withdraw(c, a, w)
	return context.Cause(ctx)
}

// withdraw ends the wait of a request, which may have its slots already. The caller must hold p.mu.
func (p *Pool) withdraw(c *Caller, a *account, w *waiter) {
	if w.has { // it is too late to use them
		p.release(c, w.n)
		return
	}
	p.dequeue(a, w)
	p.forget(c, a)
	p.dispatch() // others may need less
}

// Release gives a slot back, which may go to a request that waits.
func (p *Pool) Release(c *Caller) { p.ReleaseN(c, 1) }

// ReleaseN is Release for n slots.
func (p *Pool) ReleaseN(c *Caller, n int) {
	p.mu.Lock()
	p.release(c, n)
	p.mu.Unlock()
}

// mayEnter reports whether a request gets n slots at once, and need not wait. The caller must hold
// p.mu.
func (p *Pool) mayEnter(c *Caller, a *account, n int) bool {
	if a.first != nil || len(p.waiting) > 0 && p.waiting[0].held <= a.held {
		return false
	}
	return p.allows(c, a, n)
}

// allows reports whether a caller may take n free slots. The caller must hold p.mu.
func (p *Pool) allows(c *Caller, a *account, n int) bool {
	free := p.size - p.used
	switch {
	case n > free, p.perCaller > 0 && a.held+n > p.perCaller, n > free-p.spared && !p.alone(a):
		return false
	case free-n >= p.reserve || a.held == 0:
		return true
	case c.key.conn != 0 && p.holders == 1:
		return true // it holds all that is held
	}
	return a.held+n <= p.size/(p.holders+1) && a.held+n <= free/4
}

// alone reports whether no other caller holds slots or waits for one. The caller must hold p.mu.
func (p *Pool) alone(a *account) bool {
	return p.holders == min(a.held, 1) && (len(p.waiting) == 0 || len(p.waiting) == 1 && p.waiting[0] == a)
}

func (p *Pool) take(a *account, n int) {
	if a.held == 0 {
		p.holders++
	}
	a.held += n
	p.used += n
}

func (p *Pool) release(c *Caller, n int) {
	a := p.account(c)
	a.held -= n
	p.used -= n
	if a.held == 0 {
		p.holders--
	}
	if a.first != nil {
		heap.Fix(&p.waiting, a.position)
	} else {
		p.forget(c, a)
	}
	p.dispatch()
}

// dispatch gives free slots to those that wait. If the first account in the heap may not have
// one, no other may. The caller must hold p.mu.
func (p *Pool) dispatch() {
	for len(p.waiting) > 0 {
		a := p.waiting[0]
		w := a.first
		if !p.allows(w.caller, a, w.n) {
			return
		}
		p.take(a, w.n)
		p.dequeue(a, w)
		if a.first != nil {
			p.turn++
			a.turn = p.turn
			heap.Fix(&p.waiting, a.position)
		}
		w.has = true
		w.granted <- struct{}{} // has room for it
	}
}

func (p *Pool) enqueue(c *Caller, a *account, w *waiter) {
	w.caller, w.prev = c, a.last
	p.waiters++
	if a.last != nil {
		a.last.next, a.last = w, w
		return
	}
	a.first, a.last = w, w
	p.turn++
	a.turn = p.turn
	heap.Push(&p.waiting, a)
}

func (p *Pool) dequeue(a *account, w *waiter) {
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		a.first = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		a.last = w.prev
	}
	w.prev, w.next = nil, nil // it may wait again
	p.waiters--
	if a.first == nil {
		heap.Remove(&p.waiting, a.position)
	}
}

// account returns the account of a caller. The caller must hold p.mu.
func (p *Pool) account(c *Caller) *account {
	if p.index >= 0 {
		return &c.accounts[p.index]
	}
	a := p.others[c]
	if a == nil {
		if n := len(p.spare); n > 0 {
			a, p.spare = p.spare[n-1], p.spare[:n-1]
		} else {
			a = new(account)
		}
		p.others[c] = a
	}
	return a
}

// forget drops an account in which there is nothing. The caller must hold p.mu.
func (p *Pool) forget(c *Caller, a *account) {
	if p.index >= 0 || a.held > 0 || a.first != nil {
		return
	}
	delete(p.others, c)
	if len(p.spare) < maxSpare {
		p.spare = append(p.spare, a)
	}
}

// accounts is a heap of those in which requests wait. The next to be served is at its root.
type accounts []*account

// Len implements [heap.Interface], as the other methods do.
func (h accounts) Len() int { return len(h) }

func (h accounts) Less(i, j int) bool {
	if h[i].held != h[j].held {
		return h[i].held < h[j].held
	}
	return h[i].turn < h[j].turn
}

func (h accounts) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].position, h[j].position = i, j
}

func (h *accounts) Push(x any) {
	a := x.(*account)
	a.position = len(*h)
	*h = append(*h, a)
}

func (h *accounts) Pop() any {
	last := len(*h) - 1
	a := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return a
}
