package session

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// A ledger holds what the core must never lose count of: the live requests, and
// the counters of the conservation law. It is striped into lanes, each with a
// lock of its own, so that requests do not meet on one lock; a reader takes all
// the locks at once and so sees one consistent moment.
type ledger struct {
	lanes []lane
	// remaining counts the live requests once the ledger is sealed; idle is closed when
	// it reaches zero.
	remaining atomic.Int64
	idle      chan struct{}
	// owed counts those whose answer has no fate yet; answered is closed at zero.
	owed     atomic.Int64
	answered chan struct{}

	mu     sync.Mutex // guards series
	series []*Series
}

// A Series is the pair of labels under which requests are counted: a method and,
// for the methods that have one, a registered tool or prompt. Both come from
// registrations, never from the wire.
type Series struct {
	Method string
	Target string
	index  int
	answer atomic.Int64 // size in bytes of the latest result
	// Observation belongs to the observer: what it knows of the series, so that it need not
	// look for it.
	Observation atomic.Value
}

// A lane is one stripe of the ledger.
type lane struct {
	mu     sync.Mutex
	sealed bool // no admission any more
	head   *Request
	counts []*seriesCounts // by Series.index
	tally  tally
	_      [64]byte // keeps two lanes' locks off one cache line
}

// seriesCounts are the counters of one series in one lane.
type seriesCounts struct {
	admitted, sent, stored, panics uint64
	dropped                        [numDropReasons]uint64
	cancelled                      [numCauses]uint64
	abandoned                      [numCauses]uint64
	tasksCancelled                 [numCauses]uint64
}

// tally holds the counters without a series.
type tally struct {
	received         [numReceived]uint64
	rejected         map[mcp.RejectReason]uint64
	ignored          map[ignoredKey]uint64
	notificationDrop map[notificationKey]uint64
	limits           map[string]uint64
	exchangesRefused map[mcp.RefuseReason]uint64
	sessionsClosed   map[mcp.Cause]uint64
	observerPanics   uint64
	eventFailures    [numEventOps]uint64
	resumed          uint64 // streams that a client has gone on reading
	expired          uint64 // stored answers that nobody has fetched
}

type ignoredKey struct {
	kind   mcp.IgnoredKind
	reason mcp.IgnoreReason
}

type notificationKey struct {
	method string
	reason mcp.DropReason
}

// Kinds of received messages, indexing tally.received.
const (
	receivedRequest = iota
	receivedNotification
	receivedResponse
	receivedInvalid
	numReceived
)

var receivedKinds = [numReceived]string{"request", "notification", "response", "invalid"}

func newLedger(lanes int) *ledger {
	l := &ledger{lanes: make([]lane, lanes), idle: make(chan struct{}), answered: make(chan struct{})}
	for i := range l.lanes {
		l.lanes[i].tally = tally{
			rejected:         map[mcp.RejectReason]uint64{},
			ignored:          map[ignoredKey]uint64{},
			notificationDrop: map[notificationKey]uint64{},
			limits:           map[string]uint64{},
			exchangesRefused: map[mcp.RefuseReason]uint64{},
			sessionsClosed:   map[mcp.Cause]uint64{},
		}
	}
	return l
}

// Series returns the series of a method and a target, making it on first use.
func (l *ledger) Series(method, target string) *Series {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.series {
		if s.Method == method && s.Target == target {
			return s
		}
	}
	s := &Series{Method: method, Target: target, index: len(l.series)}
	l.series = append(l.series, s)
	return s
}

// lane picks a lane. Random choice costs less than a shared counter.
func (l *ledger) lane() *lane { return &l.lanes[rand.IntN(len(l.lanes))] }

// of returns the lane's counters of a series. The caller holds ln.mu.
func (ln *lane) of(s *Series) *seriesCounts {
	for len(ln.counts) <= s.index {
		ln.counts = append(ln.counts, nil)
	}
	c := ln.counts[s.index]
	if c == nil {
		c = new(seriesCounts)
		ln.counts[s.index] = c
	}
	return c
}

// admit enters r into the live set and counts it, unless the ledger is sealed.
func (ln *lane) admit(r *Request) bool {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.sealed {
		return false
	}
	ln.tally.received[receivedRequest]++
	ln.of(r.Route.Series).admitted++
	r.lane = ln
	if r.next = ln.head; r.next != nil {
		r.next.prev = r
	}
	ln.head = r
	return true
}

// remove takes r out of the live set. The caller holds ln.mu and tells the
// ledger afterwards with left.
func (ln *lane) remove(r *Request) {
	if r.prev != nil {
		r.prev.next = r.next
	} else {
		ln.head = r.next
	}
	if r.next != nil {
		r.next.prev = r.prev
	}
	r.prev, r.next = nil, nil
}

// left notes that a live request was removed from a sealed lane.
func (l *ledger) left() {
	if l.remaining.Add(-1) == 0 {
		close(l.idle)
	}
}

// concluded notes that the answer to a request of a sealed lane has a fate.
func (l *ledger) concluded() {
	if l.owed.Add(-1) == 0 {
		close(l.answered)
	}
}

// count changes the tally under the lock of some lane.
func (l *ledger) count(f func(*tally)) {
	ln := l.lane()
	ln.mu.Lock()
	defer ln.mu.Unlock()
	f(&ln.tally)
}

func (l *ledger) received(kind int) { l.count(func(t *tally) { t.received[kind]++ }) }

func (l *ledger) rejected(received int, reason mcp.RejectReason) {
	l.count(func(t *tally) { t.received[received]++; t.rejected[reason]++ })
}

func (l *ledger) ignored(received int, kind mcp.IgnoredKind, reason mcp.IgnoreReason) {
	l.count(func(t *tally) { t.received[received]++; t.ignored[ignoredKey{kind, reason}]++ })
}

func (l *ledger) notificationDropped(method string, reason mcp.DropReason) {
	l.count(func(t *tally) { t.notificationDrop[notificationKey{method, reason}]++ })
}

func (l *ledger) limitReached(name string) { l.count(func(t *tally) { t.limits[name]++ }) }

func (l *ledger) exchangesRefused(reason mcp.RefuseReason) {
	l.count(func(t *tally) { t.exchangesRefused[reason]++ })
}

func (l *ledger) sessionClosed(cause mcp.Cause) {
	l.count(func(t *tally) { t.sessionsClosed[cause]++ })
}

// lockAll takes every lane's lock, always in the same order.
func (l *ledger) lockAll() {
	for i := range l.lanes {
		l.lanes[i].mu.Lock()
	}
}

func (l *ledger) unlockAll() {
	for i := range l.lanes {
		l.lanes[i].mu.Unlock()
	}
}

// seal ends admission in all lanes at one moment. The ledger's idle channel is
// closed when the last live request has left.
func (l *ledger) seal() {
	l.lockAll()
	defer l.unlockAll()
	if l.lanes[0].sealed {
		return
	}
	n, owed := int64(1), int64(1) // our own, so that idle cannot close while we count
	for i := range l.lanes {
		l.lanes[i].sealed = true
		for r := l.lanes[i].head; r != nil; r = r.next {
			n++
			if r.fate == FateUnknown {
				owed++
			}
		}
	}
	l.remaining.Store(n)
	l.owed.Store(owed)
	l.left()
	l.concluded()
}

// live returns a private copy of the live set, to be walked without a lock.
func (l *ledger) live() []*Request {
	l.lockAll()
	defer l.unlockAll()
	var all []*Request
	for i := range l.lanes {
		for r := l.lanes[i].head; r != nil; r = r.next {
			all = append(all, r)
		}
	}
	return all
}

// The positions of causes and drop reasons in the counters' arrays.
const (
	numCauses      = 9
	numDropReasons = 6
)

func causeIndex(c mcp.Cause) int {
	switch c {
	case mcp.CauseClientCancel:
		return 0
	case mcp.CauseClientDisconnect:
		return 1
	case mcp.CauseTransportClose:
		return 2
	case mcp.CauseTransportError:
		return 3
	case mcp.CauseSessionDelete:
		return 4
	case mcp.CauseSessionIdle:
		return 5
	case mcp.CauseSessionEvicted:
		return 6
	case mcp.CauseServerShutdown:
		return 7
	case mcp.CauseDeadline:
		return 8
	}
	panic("session: unknown cause " + string(c))
}

func dropIndex(d mcp.DropReason) int {
	switch d {
	case mcp.DropCancelled:
		return 0
	case mcp.DropClosedWriter:
		return 1
	case mcp.DropBrokenPeer:
		return 2
	case mcp.DropWriteTimeout:
		return 3
	case mcp.DropSessionGone:
		return 4
	case mcp.DropStreamGone:
		return 5
	}
	panic("session: unknown drop reason " + string(d))
}
