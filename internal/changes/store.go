package changes

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultBytes is the default size of a store.
const DefaultBytes = 8 << 20

// A Store counts requests by [Key] in steps of ten seconds. It is safe for concurrent use.
//
// Each shard has a lock of its own and the step that is not over. When a request of a later step
// comes, the shard writes its sums into the history, which is common to all shards.
type Store struct {
	seed    maphash.Seed
	shards  [numShards]shard
	history history

	searchBytes int          // that a [History] may take
	searched    atomic.Int64 // that the one takes which was filled last
}

// Stats says how full a store is.
type Stats struct {
	Bytes, MaxBytes int
	Keys            int       // that the history keeps apart
	Merged          uint64    // requests since the start that were counted under [Other]
	Oldest          time.Time // the beginning of the history; zero if there is none
}

const (
	numShards  = 8
	shardShift = 61

	entryBytes = 640 // about what an entry takes, with its place in the map and its texts
	infoBytes  = 384 // the same of a key in the history
	frameBytes = 64  // of a frame beside its contents
)

// New returns an empty store of at most so many bytes, with what a search takes. It takes memory only for what
// it keeps.
func New(maxBytes int) *Store {
	s := &Store{seed: maphash.MakeSeed(), searchBytes: maxBytes / 8 * searchEighths}
	perShard := max(maxBytes/4/entryBytes/numShards, 8)
	for i := range s.shards {
		s.shards[i] = shard{room: perShard, entries: map[uint64]*entry{}}
	}
	s.history.init(maxBytes-s.searchBytes, maxBytes/8/infoBytes, s.liveBytes)
	return s
}

// Add counts a request. It makes nothing on the heap if the key is known.
func (s *Store) Add(o *Observation) {
	if clock != nil {
		o.At = clock().UnixNano()
	}
	h := o.hash(s.seed)
	sh := &s.shards[h>>shardShift]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if step := o.At / stepLength; step > sh.step {
		sh.close(&s.history)
		sh.step = step
	}
	e := sh.find(h, o)
	if e == nil {
		e = sh.admit(s, h, o)
	}
	e.cell.add(o)
}

// Read calls f for the sums of each key in each step from one step to another, that one not included.
// The steps come in no order, and sums of one key and step may come in parts. f must not keep the
// cell.
func (s *Store) Read(from, to int64, f func(step int64, key *Info, cell *Cell)) {
	s.flush(to)
	s.history.read(from, to, f)
}

// flush writes the steps before a step into the history.
func (s *Store) flush(before int64) {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		if sh.step < before {
			sh.close(&s.history)
		}
		sh.mu.Unlock()
	}
}

// Step returns the step of a time.
func Step(t time.Time) int64 { return t.UnixNano() / stepLength }

// StepTime returns the beginning of a step.
func StepTime(step int64) time.Time { return time.Unix(0, step*stepLength).UTC() }

// Stats says how full the store is.
func (s *Store) Stats() Stats {
	stats := s.history.stats()
	stats.Bytes, stats.MaxBytes = stats.Bytes+int(s.searched.Load()), stats.MaxBytes+s.searchBytes
	for i := range s.shards {
		stats.Merged += s.shards[i].merged.Load()
	}
	return stats
}

// liveBytes returns what the entries of all shards take.
func (s *Store) liveBytes() (n int) {
	for i := range s.shards {
		n += int(s.shards[i].size.Load()) * entryBytes
	}
	return n
}

// A shard has some of the keys of the step that is not over.
type shard struct {
	mu      sync.Mutex // guards the rest, except for the atomic fields
	step    int64
	room    int // entries that are not common
	own     int
	common  int
	entries map[uint64]*entry // the first of those with one hash
	spare   []*entry          // were entries before
	size    atomic.Int64
	merged  atomic.Uint64 // requests that were counted under Other
	_       [64]byte      // keeps the locks of two shards off one cache line
}

// An entry has the sums of one key in the step that is not over.
type entry struct {
	key                     Key
	issuer, subject, tenant string // of the principal
	cell                    open
	first                   int64  // when the key was seen first, in ns since 1970
	idle                    int    // steps without a request
	common                  bool   // it is for callers that are not kept apart
	info                    *Info  // in the history; nil: the key is new
	next                    *entry // with the same hash
}

func (e *entry) is(o *Observation) bool {
	k := &e.key
	return k.Client == o.Client && k.Version == o.Version && e.subject == o.Subject && e.issuer == o.Issuer && e.tenant == o.Tenant &&
		k.Target == o.Target && k.Method == o.Method && k.Outcome == o.Outcome && k.Reason == o.Reason && k.Phase == o.Phase
}

// admit returns the entry for a key that the shard does not have. In a full shard the key takes the place
// of another new one with few requests, or else it is counted for all callers that are not kept apart. The
// caller must hold sh.mu.
func (sh *shard) admit(s *Store, h uint64, o *Observation) *entry {
	if sh.own < sh.room || sh.replace(s) {
		sh.own++
		return sh.add(h, o, false)
	}
	sh.merged.Add(1)
	return sh.commonEntry(s, o)
}

// commonEntry returns the entry for all callers that are not kept apart.
func (sh *shard) commonEntry(s *Store, o *Observation) *entry {
	rest := o.withoutCaller()
	h := rest.hash(s.seed)
	if e := sh.find(h, &rest); e != nil {
		return e
	}
	if sh.common >= sh.room/2 { // a program with very many tools and errors
		rest = o.withoutAll()
		h = rest.hash(s.seed)
		if e := sh.find(h, &rest); e != nil {
			return e
		}
	}
	sh.common++
	return sh.add(h, &rest, true)
}

// replace removes an entry that the history does not know and that has one request, if a small sample
// contains one. Its sums go to the entry for all callers that are not kept apart.
func (sh *shard) replace(s *Store) bool {
	sample := 0
	for hash, e := range sh.entries {
		if sample++; sample > sampleSize {
			return false
		}
		if e.common || e.info != nil || e.cell.Calls != 1 || e.next != nil {
			continue
		}
		cell := e.cell.Cell
		of := Observation{Method: e.key.Method, Target: e.key.Target, Outcome: e.key.Outcome, Reason: e.key.Reason, Phase: e.key.Phase, At: e.first}
		delete(sh.entries, hash)
		sh.recycle(e)
		sh.merged.Add(1)
		sh.commonEntry(s, &of).cell.Add(&cell)
		return true
	}
	return false
}

// sampleSize is how many entries are looked at for one to replace. The order of a map is random.
const sampleSize = 4

// add makes an entry.
func (sh *shard) add(h uint64, o *Observation, common bool) *entry {
	var e *entry
	if n := len(sh.spare); n > 0 {
		e, sh.spare = sh.spare[n-1], sh.spare[:n-1]
	} else {
		e = &entry{}
		sh.size.Add(1)
	}
	key := o.key()
	*e = entry{key: key, first: o.At, common: common}
	if o.Issuer == "" && o.Tenant == "" {
		e.subject = key.Principal
	} else {
		e.issuer, e.subject, e.tenant = cloned(o.Issuer), cloned(o.Subject), cloned(o.Tenant)
	}
	e.next, sh.entries[h] = sh.entries[h], e
	return e
}

// find returns the entry of a key, or nil.
func (sh *shard) find(h uint64, o *Observation) *entry {
	e := sh.entries[h]
	for e != nil && !e.is(o) {
		e = e.next
	}
	return e
}
