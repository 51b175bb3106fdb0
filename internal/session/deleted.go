package session

import (
	"container/heap"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
)

// deleted remembers the sessions with sealed ids that have been deleted, until their ids end. Without
// it the next message with such an id would open the session again. If there are too many, the caller
// that has deleted the most loses its oldest one: its own session could then be opened again.
type deleted struct {
	mu      sync.Mutex // guards the rest
	ends    map[string]time.Time
	quiet   map[string]struct{}   // of which other replicas do not know
	told    map[string]struct{}   // of which the store knows from this replica
	gone    []string              // of these, those that were forgotten because there were too many
	callers map[uint64]*deletions // by [share.Key.Fingerprint]
	largest placedHeap[*deletions, mostDeletions]
}

// deletions are the sessions that one caller has deleted, the oldest first.
type deletions struct {
	caller   uint64
	ids      []string
	position int // in deleted.largest
}

// add remembers a session that a caller has deleted here or elsewhere. It returns whether another one was
// forgotten for it, because there are more than limit.
func (d *deleted) add(id string, caller uint64, now, ends time.Time, limit int) (full bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ends == nil {
		d.ends, d.callers = map[string]time.Time{}, map[uint64]*deletions{}
	}
	if _, known := d.ends[id]; known || !ends.After(now) {
		return false
	}
	own := d.callers[caller]
	if own == nil {
		own = &deletions{caller: caller}
		d.callers[caller] = own
		heap.Push(&d.largest, own)
	}
	d.ends[id] = ends
	own.ids = append(own.ids, id)
	heap.Fix(&d.largest, own.position)
	for !d.ends[own.ids[0]].After(now) {
		d.drop(own)
	}
	if len(d.ends) <= limit {
		return false
	}
	most := d.largest.list[0]
	if _, told := d.told[most.ids[0]]; told {
		d.gone = append(d.gone, most.ids[0])
	}
	d.drop(most)
	return true
}

// drop forgets the oldest session of a caller. The caller must hold d.mu.
func (d *deleted) drop(of *deletions) {
	delete(d.ends, of.ids[0])
	delete(d.quiet, of.ids[0])
	delete(d.told, of.ids[0])
	of.ids = of.ids[1:]
	if len(of.ids) > 0 {
		heap.Fix(&d.largest, of.position)
		return
	}
	heap.Remove(&d.largest, of.position)
	delete(d.callers, of.caller)
}

// has reports whether a session was deleted.
func (d *deleted) has(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, known := d.ends[id]
	return known
}

// noteTold notes whether the store, and so other replicas, know of a deletion. It may have been forgotten meanwhile.
func (d *deleted) noteTold(id string, told bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.quiet, id)
	if _, known := d.ends[id]; !known {
		if told {
			d.gone = append(d.gone, id)
		}
		return
	}
	if d.quiet == nil {
		d.quiet, d.told = map[string]struct{}{}, map[string]struct{}{}
	}
	if told {
		d.told[id] = struct{}{}
	} else {
		d.quiet[id] = struct{}{}
	}
}

// takeGone returns the deletions that the store need not know any more. There are never more of them than
// have been remembered.
func (d *deleted) takeGone() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	gone := d.gone
	d.gone = nil
	return gone
}

// A deletion is what other replicas hear of one.
type deletion struct {
	session SharedSession
	caller  uint64
}

// untold returns the deletions of which other replicas do not know.
func (d *deleted) untold() (all []deletion) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for caller, own := range d.callers {
		for _, id := range own.ids {
			if _, quiet := d.quiet[id]; quiet {
				all = append(all, deletion{SharedSession{id, d.ends[id]}, caller})
			}
		}
	}
	return all
}

// mostDeletions orders callers: the one that has deleted the most sessions comes first.
type mostDeletions struct{}

func (mostDeletions) before(a, b *deletions) bool { return len(a.ids) > len(b.ids) }

func (mostDeletions) position(of *deletions) *int { return &of.position }

// rememberDeleted keeps a session, that its client or an operator ends, from being opened from its id again.
func (c *Core) rememberDeleted(s *Session) {
	if c.SealsSessions() && c.deleted.add(s.id, s.caller.Fingerprint(), time.Now(), s.ends, c.limits.MaxDeletedSessions) {
		c.ledger.limitReached(limits.NameDeletedSessions)
	}
}
