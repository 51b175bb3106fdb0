package task

import (
	"container/heap"
	"container/list"
	"maps"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/share"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/store"
)

// A ledger bounds the tasks that this process has created, by the limits of the server. To make room it
// gives up tasks that have ended: of the caller with the largest share, the oldest end first. A caller
// never loses a task to one with a larger share. A task that runs is never given up.
type ledger struct {
	limits  func() limits.Limits
	origin  func(*store.TaskRecord) origin
	reached func(limit string) // counts a limit that was reached
	// entry returns what the ledger keeps of a record.
	entry func(*store.TaskRecord) *store.TaskRecord

	mu       sync.Mutex // guards the rest
	byID     map[string]*keptTask
	callers  map[share.Key]*taskShare
	ends     uint64 // tasks that have ended so far
	expiring taskHeap
	timer    *time.Timer // runs while there are tasks
	bytes    int
	counts   map[mcp.TaskStatus]int
}

func newLedger(
	limits func() limits.Limits, origin func(*store.TaskRecord) origin, reached func(string), entry func(*store.TaskRecord) *store.TaskRecord,
) ledger {
	return ledger{
		limits: limits, origin: origin, reached: reached, entry: entry,
		byID: map[string]*keptTask{}, callers: map[share.Key]*taskShare{}, counts: map[mcp.TaskStatus]int{},
	}
}

// An origin is what the record of a task does not say about the request that it was.
type origin struct {
	caller share.Key
	frame  int // bytes of the request
}

// A keptTask is one record and its places in the lists.
type keptTask struct {
	rec   *store.TaskRecord // as ledger.entry returns it
	frame int               // bytes of its request, which is in memory while the task runs
	size  int               // bytes, with the frame while the task runs
	share *taskShare
	heap  int // the index in expiring
	// ended is the element of the list of ended tasks, nil while the task runs; end is the number
	// of the end.
	ended *list.Element
	end   uint64
	// lost says that the store has lost the record while the handler runs here: the task counts until that returns.
	lost bool
}

// sizeAs returns the size of the task with the record rec, in bytes.
func (k *keptTask) sizeAs(rec *store.TaskRecord) int {
	if rec.Status.Terminal() {
		return recordSize(rec)
	}
	return recordSize(rec) + k.frame
}

// A taskShare has the tasks of one caller.
type taskShare struct {
	caller share.Key
	tasks  int
	bytes  int
	ended  list.List // of *keptTask, the oldest end first
}

// oldestEnd returns the task that has ended first, except but; nil if there is none.
func (s *taskShare) oldestEnd(but *keptTask) *keptTask {
	for e := s.ended.Front(); e != nil; e = e.Next() {
		if k := e.Value.(*keptTask); k != but {
			return k
		}
	}
	return nil
}

// The two measures of a share.
func (s *taskShare) inTasks() int { return s.tasks }
func (s *taskShare) inBytes() int { return s.bytes }

// A room is what it took to make room for a task: the limits that were reached, and the tasks that
// were given up, as the ledger had them.
type room struct {
	reached []string
	gone    []*store.TaskRecord
}

// enter adds a new task, or returns the error of the limit that has no room for it.
func (g *ledger) enter(rec *store.TaskRecord) (room, error) {
	from := g.origin(rec)
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.create(rec, from)
}

// create is enter. The caller must hold g.mu.
func (g *ledger) create(rec *store.TaskRecord, from origin) (r room, err error) {
	l := g.limits()
	share := g.callers[from.caller]
	if share == nil {
		share = &taskShare{caller: from.caller}
	}
	k := &keptTask{frame: from.frame, share: share}
	k.size = k.sizeAs(rec)
	for _, bound := range []struct {
		limit  string
		full   func() bool
		victim func() *keptTask
	}{
		{limits.NameTasksPrincipal, func() bool { return share.tasks >= l.MaxTasksPerPrincipal },
			func() *keptTask { return share.oldestEnd(nil) }},
		{limits.NameTasks, func() bool { return len(g.byID) >= l.MaxTasks },
			func() *keptTask { return g.victim(share, (*taskShare).inTasks, share.tasks+1, nil) }},
		{limits.NameTaskBytes, func() bool { return g.bytes+k.size > l.MaxTaskBytes },
			func() *keptTask { return g.victim(share, (*taskShare).inBytes, share.bytes+k.size, nil) }},
	} {
		full := bound.full()
		if full {
			r.reached = append(r.reached, bound.limit)
		}
		for ; full; full = bound.full() {
			victim := bound.victim()
			if k.size > l.MaxTaskBytes || victim == nil {
				return r, session.Overload(bound.limit)
			}
			r.gone = append(r.gone, g.forget(victim))
		}
	}
	share.tasks++
	g.callers[from.caller] = share
	k.rec = g.entry(rec)
	g.byID[rec.TaskID] = k
	g.bytes += k.size
	share.bytes += k.size
	g.counts[rec.Status]++
	heap.Push(&g.expiring, k)
	g.wind()
	return r, nil
}

// find returns a task that has not expired, or nil. The caller must hold g.mu.
func (g *ledger) find(id string) *keptTask {
	if k := g.byID[id]; k != nil && time.Now().Before(k.rec.Expires) {
		return k
	}
	return nil
}

// put replaces the record of a task if there is room for it. The caller must hold g.mu.
func (g *ledger) put(k *keptTask, rec *store.TaskRecord) (r room, err error) {
	if r, err = g.fit(k, k.sizeAs(rec)); err == nil {
		g.set(k, rec)
	}
	return r, err
}

// fit makes room for a task that becomes as large as size. The caller must hold g.mu.
func (g *ledger) fit(k *keptTask, size int) (r room, err error) {
	limit := g.limits().MaxTaskBytes
	for size > k.size && g.bytes-k.size+size > limit {
		r.reached = []string{limits.NameTaskBytes}
		victim := g.victim(k.share, (*taskShare).inBytes, k.share.bytes-k.size+size, k)
		if size > limit || victim == nil {
			return r, session.Overload(limits.NameTaskBytes)
		}
		r.gone = append(r.gone, g.forget(victim))
	}
	return r, nil
}

// resize changes the size of a task. The caller must hold g.mu.
func (g *ledger) resize(k *keptTask, size int) {
	g.bytes += size - k.size
	k.share.bytes += size - k.size
	k.size = size
}

// set replaces the record of a task, whether or not there is room for it. The caller must hold g.mu.
func (g *ledger) set(k *keptTask, rec *store.TaskRecord) {
	g.resize(k, k.sizeAs(rec))
	g.counts[k.rec.Status]--
	g.counts[rec.Status]++
	k.rec, k.lost = g.entry(rec), false
	if rec.Status.Terminal() && k.ended == nil {
		g.ends++
		k.ended, k.end = k.share.ended.PushBack(k), g.ends
	}
	heap.Fix(&g.expiring, k.heap)
	g.wind()
}

// victim returns the ended task that makes room for one of a caller: the oldest end of the largest
// share. measure says how large a share is, and mine how large that of the caller becomes; smaller shares lose nothing. It is nil if nothing can be removed, and never but.
func (g *ledger) victim(share *taskShare, measure func(*taskShare) int, mine int, but *keptTask) (victim *keptTask) {
	most := mine
	for _, s := range g.callers {
		n := measure(s)
		if s == share {
			n = mine
		}
		if n < most {
			continue
		}
		if k := s.oldestEnd(but); k != nil && (victim == nil || n > most || k.end < victim.end) {
			victim, most = k, n
		}
	}
	return victim
}

// forget removes a task and returns what the ledger had of it. The caller must hold g.mu.
func (g *ledger) forget(k *keptTask) *store.TaskRecord {
	delete(g.byID, k.rec.TaskID)
	heap.Remove(&g.expiring, k.heap)
	if k.ended != nil {
		k.share.ended.Remove(k.ended)
	}
	g.bytes -= k.size
	k.share.bytes -= k.size
	g.counts[k.rec.Status]--
	if k.share.tasks--; k.share.tasks == 0 {
		delete(g.callers, k.share.caller)
	}
	rec := k.rec
	k.rec = nil // a reservation for the task sees by this that the task is gone
	return rec
}

// expire removes the tasks that have expired.
func (g *ledger) expire() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.expiring) > 0 && !time.Now().Before(g.expiring[0].rec.Expires) {
		g.forget(g.expiring[0])
	}
	g.wind()
}

// wind sets the timer to the next task that expires. The caller must hold g.mu.
func (g *ledger) wind() {
	switch {
	case len(g.expiring) == 0:
		if g.timer != nil {
			g.timer.Stop()
		}
	case g.timer == nil:
		g.timer = time.AfterFunc(time.Until(g.expiring[0].rec.Expires), g.expire)
	default:
		g.timer.Reset(time.Until(g.expiring[0].rec.Expires))
	}
}

// tally counts the tasks by their status.
func (g *ledger) tally() map[mcp.TaskStatus]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.counts)
}

// share describes what callers have of max_task_bytes.
func (g *ledger) share() session.ShareInfo {
	g.mu.Lock()
	defer g.mu.Unlock()
	info := session.ShareInfo{
		Limit: limits.NameTaskBytes, Usage: share.Usage{Size: g.limits().MaxTaskBytes, Used: g.bytes, Holders: len(g.callers)},
	}
	for key, s := range g.callers {
		if s.bytes > info.Largest {
			info.Largest, info.Caller = s.bytes, key
		}
	}
	return info
}

// report counts the limits that were reached.
func (g *ledger) report(r room) {
	for _, limit := range r.reached {
		g.reached(limit)
	}
}
