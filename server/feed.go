package server

import "sync"

// An outlet writes changes to one subscriber.
type outlet interface {
	// post queues the notification of a change without waiting. done, if it is not nil,
	// is called once, when the notification was written or dropped, by any goroutine.
	post(c news, done func())
	// overflow counts that a part of a resource was not remembered, but the resource.
	overflow()
}

// A feed is what one subscriber is told. While it is busy, because what was posted last
// is not written yet, changes are only remembered, each once; so a subscriber that does
// not read costs the memory of what it has subscribed to, and one that reads again
// learns what is new.
type feed struct {
	out  outlet
	next func() // f.send
	// parts is how many parts of resources are remembered.
	parts int

	// Guarded by hub.mu: what the subscriber wants to know of, the lists as a bit for each
	// kind, and whether it has left.
	lists  uint8
	topics map[change]struct{}
	left   bool
	// revisions are those of the tasks among the topics that the subscriber may have read.
	revisions map[string]int64

	mu      sync.Mutex // guards the rest
	pending pending
	busy    bool
	closed  bool
}

// newFeed returns a feed that is busy until its first send.
func newFeed(out outlet, lists uint8, topics []change, parts int) *feed {
	f := &feed{out: out, lists: lists, parts: parts, busy: true}
	f.next = f.send
	if len(topics) > 0 {
		f.topics = make(map[change]struct{}, len(topics))
		for _, t := range topics {
			f.topics[t] = struct{}{}
		}
	}
	return f
}

// tell notes a change for the subscriber, who has asked for the topic as, and sends it
// unless others do already.
func (f *feed) tell(c news, as change) {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return
	}
	lossless := f.pending.add(c, as, f.parts)
	start := !f.busy
	f.busy = true
	f.mu.Unlock()
	if !lossless {
		f.out.overflow()
	}
	if start {
		f.send()
	}
}

// maxPosted is how many notifications of one feed are queued at the same time.
const maxPosted = 16

// send posts what is pending. It is called when what was posted before was written, and
// by whoever makes the feed busy.
func (f *feed) send() {
	var room [maxPosted]news
	f.mu.Lock()
	batch := f.pending.take(room[:0], maxPosted)
	f.busy = len(batch) > 0
	f.mu.Unlock()
	for i, c := range batch {
		if i == len(batch)-1 {
			f.out.post(c, f.next)
		} else {
			f.out.post(c, nil)
		}
	}
}

// close forgets what is pending, for good.
func (f *feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed, f.pending = true, pending{}
}

// pending remembers changes until they can be told, each once, in the order in which
// they were new. The zero value is empty, and an empty one holds no memory.
type pending struct {
	lists   uint8 // a bit for each kind of list: there is always room for them
	updates []change
	known   map[change]known // what is in updates
	parts   int
}

// known is what else is remembered of an update.
type known struct {
	part bool // of a resource
	last news
}

// add remembers a change that is told for the topic as, with its last news. Beyond limit
// parts of resources it remembers the resource instead and returns false.
func (p *pending) add(n news, as change, limit int) (lossless bool) {
	c := n.change
	if c.kind < numLists {
		p.lists |= 1 << c.kind
		return true
	}
	if k, there := p.known[c]; there {
		k.last = n
		p.known[c] = k
		return true
	}
	lossless = c == as || p.parts < limit
	if !lossless {
		if c = as; p.has(as) {
			return false
		}
	}
	if p.known == nil {
		p.known = map[change]known{}
	}
	if p.known[c] = (known{c != as, news{c, n.revision, n.members}}); c != as {
		p.parts++
	}
	p.updates = append(p.updates, c)
	return lossless
}

func (p *pending) has(c change) bool {
	_, there := p.known[c]
	return there
}

func (p *pending) empty() bool { return p.lists == 0 && len(p.updates) == 0 }

// take appends the next changes to batch until that has n, the lists first.
func (p *pending) take(batch []news, n int) []news {
	for kind := range numLists {
		if p.lists&(1<<kind) != 0 && len(batch) < n {
			p.lists &^= 1 << kind
			batch = append(batch, news{change: change{kind: kind}})
		}
	}
	k := min(n-len(batch), len(p.updates))
	for _, c := range p.updates[:k] {
		was := p.known[c]
		if was.part {
			p.parts--
		}
		delete(p.known, c)
		batch = append(batch, was.last)
	}
	if p.updates = p.updates[k:]; len(p.updates) == 0 {
		p.updates, p.known = nil, nil
	}
	return batch
}
