package session

import (
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/vitrine-mcp/vitrine/internal/resume"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A ledger holds what the core must never lose count of: the live work, and
// the counters of the conservation law. It is striped into lanes, each with a
// lock of its own, so that requests do not meet on one lock; a reader takes all
// the locks at once and so sees one consistent moment.
type ledger struct {
	lanes []lane
	// remaining counts the live work once the ledger is sealed; idle is closed when it
	// reaches zero.
	remaining atomic.Int64
	idle      chan struct{}
	// owed counts the requests whose answer has no fate yet; answered is closed at zero.
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
}

// A lane is one stripe of the ledger.
type lane struct {
	mu     sync.Mutex
	sealed bool // no admission any more
	closed bool // nor does work that is there go on as other work
	head   *work
	counts []*seriesCounts // by Series.index
	tally  tally
	_      [64]byte // keeps two lanes' locks off one cache line
}

// seriesCounts are the counters of one series in one lane.
type seriesCounts struct {
	admitted, sent, stored, panics uint64
	dropped                        [numDropReasons]uint64
	cancelled                      [numLives][numCauses][numCancelPhases]uint64
	abandoned                      [numCauses]uint64
}

// tally holds the counters of a lane without a series.
type tally struct {
	Tally
	received      [numReceived]uint64
	eventFailures [resume.NumOperations]uint64
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
		l.lanes[i].tally.Tally = newTally()
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

// of returns the lane's counters of a series. The caller must hold ln.mu.
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

// enter puts work into the live set, and counts it if it is a request, unless the ledger is
// sealed.
func (ln *lane) enter(w *work) bool {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.sealed {
		return false
	}
	if w.life == requestLife {
		ln.tally.received[receivedRequest]++
		ln.of(w.self.labels()).admitted++
	}
	ln.add(w)
	return true
}

// follow puts work into the live set that goes on from other live work: a sealed ledger waits for that, and then for this, too.
// It returns false if the other work has left, or the ledger is closed.
func (l *ledger) follow(other, w *work) bool {
	if !other.hold() {
		return false
	}
	defer other.self.release()
	ln := other.lane
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.closed {
		return false
	}
	if ln.sealed {
		l.remaining.Add(1)
	}
	ln.add(w)
	return true
}

// add puts work into the live set. The caller must hold ln.mu.
func (ln *lane) add(w *work) {
	w.lane = ln
	if w.next = ln.head; w.next != nil {
		w.next.prev = w
	}
	ln.head = w
}

// remove takes work out of the live set. The caller must hold ln.mu, and tell the ledger
// afterwards with left.
func (ln *lane) remove(w *work) {
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		ln.head = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	}
	w.prev, w.next = nil, nil
}

// left notes that live work was removed from a sealed lane.
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
	l.count(func(t *tally) { t.received[received]++; t.Rejected[reason]++ })
}

func (l *ledger) ignored(received int, kind mcp.IgnoredKind, reason mcp.IgnoreReason) {
	l.count(func(t *tally) { t.received[received]++; t.Ignored[Ignored{kind, reason}]++ })
}

func (l *ledger) notificationDropped(method string, reason mcp.DropReason) {
	l.count(func(t *tally) { t.NotificationsDropped[DroppedNotification{method, reason}]++ })
}

func (l *ledger) notificationSent(method string) {
	l.count(func(t *tally) { t.NotificationsSent[method]++ })
}

func (l *ledger) limitReached(name string) { l.count(func(t *tally) { t.LimitsReached[name]++ }) }

func (l *ledger) exchangesRefused(reason mcp.RefuseReason) {
	l.count(func(t *tally) { t.ExchangesRefused[reason]++ })
}

func (l *ledger) sessionClosed(cause mcp.Cause) {
	l.count(func(t *tally) { t.SessionsClosed[cause]++ })
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
// closed when the last live work has left.
func (l *ledger) seal() {
	l.lockAll()
	defer l.unlockAll()
	if l.lanes[0].sealed {
		return
	}
	n, owed := int64(1), int64(1) // our own, so that idle cannot close while we count
	for i := range l.lanes {
		l.lanes[i].sealed = true
		for w := l.lanes[i].head; w != nil; w = w.next {
			n++
			if r, ok := w.self.(*Request); ok && r.fate == FateUnknown {
				owed++
			}
		}
	}
	l.remaining.Store(n)
	l.owed.Store(owed)
	l.left()
	l.concluded()
}

// close lets no more work enter a sealed ledger.
func (l *ledger) close() {
	l.lockAll()
	defer l.unlockAll()
	for i := range l.lanes {
		l.lanes[i].closed = true
	}
}

// live returns a private copy of the live work of one type, to be walked without a lock:
// *Request, *Detached, or Work for both.
func live[T Work](l *ledger) (all []T) {
	l.lockAll()
	defer l.unlockAll()
	for i := range l.lanes {
		for w := l.lanes[i].head; w != nil; w = w.next {
			if t, ok := w.self.(T); ok {
				all = append(all, t)
			}
		}
	}
	return all
}

// A Tally holds counters that belong to no series.
type Tally struct {
	Rejected             map[mcp.RejectReason]uint64
	Ignored              map[Ignored]uint64
	NotificationsDropped map[DroppedNotification]uint64
	NotificationsSent    map[string]uint64 // by method
	LimitsReached        map[string]uint64
	ExchangesRefused     map[mcp.RefuseReason]uint64 // exchanges that carried no message
	SessionsClosed       map[mcp.Cause]uint64
	Foreign              map[string]uint64 // uses of what belongs to another principal, see [Core.Foreign]
	StreamsExpired       map[string]uint64 // streams that ended with their token, see [Core.StreamExpired]
	Displaced            uint64            // requests that have lost their place in the queue
	ObserverPanics       uint64            // contained panics of the [Observer]
	StreamsResumed       uint64
	SessionsAdopted      uint64 // opened from their sealed ids
	// Stored answers that were fetched, and those that no client can fetch any more. They stay in
	// Stored.
	ResponsesFetched uint64
	ResponsesExpired map[mcp.ExpireReason]uint64
}

// Ignored is why a message had no effect.
type Ignored struct {
	Kind   mcp.IgnoredKind
	Reason mcp.IgnoreReason
}

// A DroppedNotification is a notification that was not sent, and why.
type DroppedNotification struct {
	Method string
	Reason mcp.DropReason
}

func newTally() Tally {
	return Tally{
		Rejected: map[mcp.RejectReason]uint64{}, Ignored: map[Ignored]uint64{},
		NotificationsDropped: map[DroppedNotification]uint64{}, NotificationsSent: map[string]uint64{}, LimitsReached: map[string]uint64{},
		ExchangesRefused: map[mcp.RefuseReason]uint64{}, SessionsClosed: map[mcp.Cause]uint64{},
		Foreign: map[string]uint64{}, StreamsExpired: map[string]uint64{},
		ResponsesExpired: map[mcp.ExpireReason]uint64{},
	}
}

func (t *Tally) add(o *Tally) {
	addAll(t.Rejected, o.Rejected)
	addAll(t.Ignored, o.Ignored)
	addAll(t.NotificationsDropped, o.NotificationsDropped)
	addAll(t.NotificationsSent, o.NotificationsSent)
	addAll(t.LimitsReached, o.LimitsReached)
	addAll(t.ExchangesRefused, o.ExchangesRefused)
	addAll(t.SessionsClosed, o.SessionsClosed)
	addAll(t.Foreign, o.Foreign)
	addAll(t.StreamsExpired, o.StreamsExpired)
	t.Displaced += o.Displaced
	t.ObserverPanics += o.ObserverPanics
	t.StreamsResumed += o.StreamsResumed
	t.SessionsAdopted += o.SessionsAdopted
	t.ResponsesFetched += o.ResponsesFetched
	addAll(t.ResponsesExpired, o.ResponsesExpired)
}

func addAll[K comparable](sum, part map[K]uint64) {
	for k, n := range maps.All(part) {
		sum[k] += n
	}
}
