package share

// A Usage is the state of something that callers share, at one moment.
type Usage struct {
	Size, Used int // slots, or other things
	Holders    int // callers that hold some
	Waiting    int // callers that wait for one
	Waiters    int // requests that wait for one
}

// All returns the callers that have a record. The caller of All must release each of them.
func (t *Table) All() (all []*Caller) {
	for i := range t.shards {
		sh := &t.shards[i]
		sh.mu.Lock()
		for _, c := range sh.buckets {
			for ; c != nil; c = c.next {
				c.refs.Add(1)
				all = append(all, c)
			}
		}
		sh.mu.Unlock()
	}
	return all
}

// Usage returns the state of the pool.
func (p *Pool) Usage() Usage {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Usage{Size: p.size, Used: p.used, Holders: p.holders, Waiting: len(p.waiting), Waiters: p.waiters}
}

// Held returns how many slots a caller holds.
func (p *Pool) Held(c *Caller) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.heldBy(c)
}

// heldBy is Held. The caller must hold p.mu.
func (p *Pool) heldBy(c *Caller) int {
	if p.index >= 0 {
		return c.accounts[p.index].held
	}
	if a := p.others[c]; a != nil {
		return a.held
	}
	return 0
}

// Largest returns how many slots that one of the callers holds that holds most, and whose they
// are.
func (p *Pool) Largest(among []*Caller) (held int, of Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used == 0 {
		return 0, Key{}
	}
	for _, c := range among {
		if n := p.heldBy(c); n > held {
			held, of = n, c.key
		}
	}
	return held, of
}

// Usage returns the state of the queue. Each caller that holds a place waits.
func (q *Queue) Usage() Usage {
	q.mu.Lock()
	defer q.mu.Unlock()
	return Usage{Size: q.size, Used: q.n, Holders: len(q.callers), Waiting: len(q.callers), Waiters: q.n}
}

// Largest returns how many places the caller with the most has, and whose they are.
func (q *Queue) Largest() (held int, of Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.n == 0 {
		return 0, Key{}
	}
	return q.most[0].n, q.most[0].caller.key
}

// Usage returns the state of the count, without the number of callers.
func (k *Count) Usage() Usage { return Usage{Size: int(k.size), Used: k.Total()} }

// Largest returns how many things the largest of the callers holds, which caller that is, and how
// many callers hold any.
func (k *Count) Largest(among []*Caller) (held int, of Key, holders int) {
	for _, c := range among {
		n := int(c.counts[k.index].Load())
		if n > 0 {
			holders++
		}
		if n > held {
			held, of = n, c.key
		}
	}
	return held, of, holders
}
