package task

import (
	"container/heap"
	"container/list"
	"context"
	"maps"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/share"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/store"
)

// memory is the store.TaskStore in memory, within the limits of the server. To make room it
// removes tasks that have ended: of the caller with the largest share, the oldest end first. A
// caller never loses a task to one with a larger share. A task that runs is never removed.
type memory struct {
	limits  func() limits.Limits
	origin  func(*store.TaskRecord) origin
	reached func(limit string)      // counts a limit that was reached
	changed func(*store.TaskRecord) // set by Watch, before any other call

	mu       sync.Mutex // guards the rest
	byID     map[string]*keptTask
	callers  map[share.Key]*taskShare
	ends     uint64 // tasks that have ended so far
	expiring taskHeap
	timer    *time.Timer // runs while there are tasks
	bytes    int
	counts   map[mcp.TaskStatus]int
}

// An origin is what the record of a task does not say about the request that it was.
type origin struct {
	caller share.Key
	frame  int // bytes of the request
}

// A keptTask is one record and its places in the lists.
type keptTask struct {
	rec   *store.TaskRecord
	frame int // bytes of its request, which is in memory while the task runs
	size  int // bytes, with the frame while the task runs
	share *taskShare
	heap  int // the index in expiring
	// ended is the element of the list of ended tasks, nil while the task runs; end is the number
	// of the end.
	ended *list.Element
	end   uint64
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

func newMemory(limits func() limits.Limits, origin func(*store.TaskRecord) origin, reached func(string)) *memory {
	return &memory{
		limits: limits, origin: origin, reached: reached, changed: func(*store.TaskRecord) {},
		byID: map[string]*keptTask{}, callers: map[share.Key]*taskShare{}, counts: map[mcp.TaskStatus]int{},
	}
}

// Watch implements store.TaskStore.
func (m *memory) Watch(changed func(*store.TaskRecord)) { m.changed = changed }

// Create implements store.TaskStore.
func (m *memory) Create(_ context.Context, rec *store.TaskRecord) error {
	from := m.origin(rec)
	m.mu.Lock()
	reached, err := m.create(rec, from)
	m.mu.Unlock()
	m.report(reached)
	return err
}

func (m *memory) create(rec *store.TaskRecord, from origin) (reached []string, err error) {
	l := m.limits()
	share := m.callers[from.caller]
	if share == nil {
		share = &taskShare{caller: from.caller}
	}
	k := &keptTask{rec: rec, frame: from.frame, share: share}
	k.size = k.sizeAs(rec)
	for _, bound := range []struct {
		limit  string
		full   func() bool
		victim func() *keptTask
	}{
		{limits.NameTasksPrincipal, func() bool { return share.tasks >= l.MaxTasksPerPrincipal },
			func() *keptTask { return share.oldestEnd(nil) }},
		{limits.NameTasks, func() bool { return len(m.byID) >= l.MaxTasks },
			func() *keptTask { return m.victim(share, (*taskShare).inTasks, share.tasks+1, nil) }},
		{limits.NameTaskBytes, func() bool { return m.bytes+k.size > l.MaxTaskBytes },
			func() *keptTask { return m.victim(share, (*taskShare).inBytes, share.bytes+k.size, nil) }},
	} {
		full := bound.full()
		if full {
			reached = append(reached, bound.limit)
		}
		for ; full; full = bound.full() {
			victim := bound.victim()
			if k.size > l.MaxTaskBytes || victim == nil {
				return reached, session.Overload(bound.limit)
			}
			m.forget(victim)
		}
	}
	share.tasks++
	m.callers[from.caller] = share
	m.byID[rec.TaskID] = k
	m.bytes += k.size
	share.bytes += k.size
	m.counts[rec.Status]++
	heap.Push(&m.expiring, k)
	m.wind()
	return reached, nil
}

// Load implements store.TaskStore.
func (m *memory) Load(_ context.Context, id string) (*store.TaskRecord, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.find(id)
	if k == nil {
		return nil, store.ErrNoTask
	}
	return k.rec, nil
}

// find returns a task that has not expired, or nil.
func (m *memory) find(id string) *keptTask {
	if k := m.byID[id]; k != nil && time.Now().Before(k.rec.Expires) {
		return k
	}
	return nil
}

// Update implements store.TaskStore.
func (m *memory) Update(_ context.Context, id string, change func(*store.TaskRecord) error) (*store.TaskRecord, error) {
	m.mu.Lock()
	rec, reached, err := m.update(id, change)
	m.mu.Unlock()
	m.report(reached)
	if err != nil {
		return nil, err
	}
	m.changed(rec)
	return rec, nil
}

func (m *memory) update(id string, change func(*store.TaskRecord) error) (rec *store.TaskRecord, reached []string, err error) {
	k := m.find(id)
	if k == nil {
		return nil, nil, store.ErrNoTask
	}
	rec = k.rec.Clone()
	if err := change(rec); err != nil {
		return nil, nil, err
	}
	size, limit := k.sizeAs(rec), m.limits().MaxTaskBytes
	for size > k.size && m.bytes-k.size+size > limit {
		reached = []string{limits.NameTaskBytes}
		victim := m.victim(k.share, (*taskShare).inBytes, k.share.bytes-k.size+size, k)
		if size > limit || victim == nil {
			return nil, reached, session.Overload(limits.NameTaskBytes)
		}
		m.forget(victim)
	}
	m.bytes += size - k.size
	k.share.bytes += size - k.size
	m.counts[k.rec.Status]--
	m.counts[rec.Status]++
	k.rec, k.size = rec, size
	if rec.Status.Terminal() && k.ended == nil {
		m.ends++
		k.ended, k.end = k.share.ended.PushBack(k), m.ends
	}
	heap.Fix(&m.expiring, k.heap)
	m.wind()
	return rec, reached, nil
}

// victim returns the ended task that makes room for one of a caller: the oldest end of the largest
// share. measure says how large a share is, and mine how large that of the caller becomes; smaller shares lose nothing. It is nil if nothing can be removed, and never but.
func (m *memory) victim(share *taskShare, measure func(*taskShare) int, mine int, but *keptTask) (victim *keptTask) {
	most := mine
	for _, s := range m.callers {
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

func (m *memory) forget(k *keptTask) {
	delete(m.byID, k.rec.TaskID)
	heap.Remove(&m.expiring, k.heap)
	if k.ended != nil {
		k.share.ended.Remove(k.ended)
	}
	m.bytes -= k.size
	k.share.bytes -= k.size
	m.counts[k.rec.Status]--
	if k.share.tasks--; k.share.tasks == 0 {
		delete(m.callers, k.share.caller)
	}
}

// expire removes the tasks that have expired.
func (m *memory) expire() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.expiring) > 0 && !time.Now().Before(m.expiring[0].rec.Expires) {
		m.forget(m.expiring[0])
	}
	m.wind()
}

// wind sets the timer to the next task that expires.
func (m *memory) wind() {
	switch {
	case len(m.expiring) == 0:
		if m.timer != nil {
			m.timer.Stop()
		}
	case m.timer == nil:
		m.timer = time.AfterFunc(time.Until(m.expiring[0].rec.Expires), m.expire)
	default:
		m.timer.Reset(time.Until(m.expiring[0].rec.Expires))
	}
}

// tally counts the tasks by their status.
func (m *memory) tally() map[mcp.TaskStatus]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.counts)
}

// share describes what callers have of max_task_bytes.
func (m *memory) share() session.ShareInfo {
	m.mu.Lock()
	defer m.mu.Unlock()
	info := session.ShareInfo{
		Limit: limits.NameTaskBytes, Usage: share.Usage{Size: m.limits().MaxTaskBytes, Used: m.bytes, Holders: len(m.callers)},
	}
	for key, s := range m.callers {
		if s.bytes > info.Largest {
			info.Largest, info.Caller = s.bytes, key
		}
	}
	return info
}

func (m *memory) report(reached []string) {
	for _, limit := range reached {
		m.reached(limit)
	}
}

// A taskHeap orders tasks by when they expire.
type taskHeap []*keptTask

func (h taskHeap) Len() int           { return len(h) }
func (h taskHeap) Less(i, j int) bool { return h[i].rec.Expires.Before(h[j].rec.Expires) }

func (h taskHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heap, h[j].heap = i, j
}

// Push implements heap.Interface.
func (h *taskHeap) Push(x any) {
	k := x.(*keptTask)
	k.heap = len(*h)
	*h = append(*h, k)
}

// Pop implements heap.Interface.
func (h *taskHeap) Pop() any {
	last := len(*h) - 1
	k := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return k
}
