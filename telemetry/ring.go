package telemetry

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// A ring has the latest traces of one class. A full ring lets go of the oldest trace of the largest
// line, so that neither the requests of one client and tool nor one cause displace all others.
type ring struct {
	size    int
	evicted prometheus.Counter

	mu      sync.Mutex // guards the rest
	entries []ringEntry
	free    int32 // an entry without a trace, or noEntry
	ends    map[string]*ringShare
	most    ringShares // those of ends
	second  int64      // of the latest trace
	taken   int        // in that second
}

// A ringKey says to which line of a ring a trace belongs.
type ringKey struct {
	end string // the cause of the cancellation, the reason of the rejection or the drop, or the error
	ringLine
}

// A ringLine is what a line of traces has in common.
type ringLine struct{ client, tool string }

// A ringEntry is a trace, or free.
type ringEntry struct {
	trace *record
	line  *ringShare
	next  int32 // of its line, or the next one that is free
}

const noEntry int32 = -1

// newRing returns a ring with room for so many traces.
func newRing(size int, evicted prometheus.Counter) *ring {
	return &ring{size: size, evicted: evicted, free: noEntry, ends: map[string]*ringShare{}}
}

// admit reports whether the ring takes a request that ends in the given second. In one second it
// takes as many as it has room for. More would evict requests of the same second, and copying
// them costs time.
func (g *ring) admit(second int64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.second != second {
		g.second, g.taken = second, 0
	}
	g.taken++
	return g.taken <= g.size
}

// favours reports whether the ring takes a request although it has taken as many in this second as it
// has room for: the request would take the place of one of a larger line.
func (g *ring) favours(k ringKey) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.entries) < g.size {
		return true
	}
	end, largest := g.ends[k.end], g.most[0]
	switch {
	case end == nil:
		return largest.n > 1
	case end.n+1 < largest.n:
		return true
	}
	mine := 0
	if line := end.lines[k.ringLine]; line != nil {
		mine = line.n
	}
	return mine+1 < end.most[0].n
}

// isFull reports whether the ring lets go of a trace for each new one.
func (g *ring) isFull() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.entries) >= g.size
}

// put adds k and returns the trace that it replaces, or nil.
func (g *ring) put(k *record) (displaced *record) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.add(k)
	if len(g.entries) <= g.size {
		return nil
	}
	g.evicted.Inc()
	return g.removeOldest(g.most[0].most[0])
}

// add adds a trace to its line. The caller must hold g.mu.
func (g *ring) add(k *record) {
	key := k.ringKey()
	end := g.ends[key.end]
	if end == nil {
		end = &ringShare{name: key.end, lines: map[ringLine]*ringShare{}}
		g.ends[key.end] = end
		g.most.add(end)
	}
	line := end.lines[key.ringLine]
	if line == nil {
		line = &ringShare{of: end, line: key.ringLine, first: noEntry, last: noEntry}
		end.lines[key.ringLine] = line
		end.most.add(line)
	}
	at := g.free
	if at == noEntry {
		at = int32(len(g.entries))
		g.entries = append(g.entries, ringEntry{})
	} else {
		g.free = g.entries[at].next
	}
	g.entries[at] = ringEntry{trace: k, line: line, next: noEntry}
	if line.last == noEntry {
		line.first, line.oldest = at, k.seq
	} else {
		g.entries[line.last].next = at
	}
	line.last = at
	line.n++
	g.changed(line, 1)
}

// removeOldest removes the oldest trace of a line. The caller must hold g.mu.
func (g *ring) removeOldest(line *ringShare) *record {
	at := line.first
	entry := &g.entries[at]
	k := entry.trace
	line.n--
	if line.first = entry.next; line.first == noEntry {
		line.last = noEntry
	} else {
		line.oldest = g.entries[line.first].trace.seq
	}
	*entry = ringEntry{next: g.free}
	g.free = at
	g.changed(line, -1)
	return k
}

// changed puts a line and its end where they belong after the line has changed by so many traces. The
// caller must hold g.mu.
func (g *ring) changed(line *ringShare, by int) {
	end := line.of
	end.n += by
	if line.n == 0 {
		end.most.remove(line)
		delete(end.lines, line.line)
	} else {
		end.most.fix(line)
	}
	if end.n == 0 {
		g.most.remove(end)
		delete(g.ends, end.name)
		return
	}
	end.oldest = end.most[0].oldest
	g.most.fix(end)
}

func (g *ring) appendTo(list []*record) []*record {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.entries {
		if k := g.entries[i].trace; k != nil {
			list = append(list, k)
		}
	}
	return list
}
