package telemetry

import (
	"cmp"
	"strconv"
	"sync/atomic"
	"time"
)

// Recent bounds what is kept in memory of requests that have ended. For a field that
// is zero the default holds; a negative Traces keeps nothing.
type Recent struct {
	// Traces is how many requests are kept of each class (recent_traces, 64), and four
	// times as many of the slowest.
	Traces int
	// Spans is how many spans are kept of one trace (recent_spans, 64).
	Spans int
	// TotalSpans is how many spans are kept in all (recent_total_spans, 2048). The ones
	// of the oldest traces go first.
	TotalSpans int
}

// The names of these limits, as metrics, documents and answers have them.
const (
	limitRecentTraces     = "recent_traces"
	limitRecentSpans      = "recent_spans"
	limitRecentTotalSpans = "recent_total_spans"
)

func (r Recent) withDefaults() Recent {
	return Recent{cmp.Or(r.Traces, 64), cmp.Or(r.Spans, 64), cmp.Or(r.TotalSpans, 2048)}
}

// The classes of requests that are kept. Each has a ring of its own, so that a flood
// of one evicts nothing of another. A request is in the first class that fits.
const (
	classAbandoned = "abandoned" // the handler ignored its cancelled context
	classPanic     = "panic"
	classCancelled = "cancelled"
	classDropped   = "dropped"      // the answer was not sent, and not for a cancellation
	classRejected  = "rejected"     // not admitted
	classError     = "error"        // of the service, or a tool's
	classCaller    = "caller_error" // an error of the caller's making
	classSlow      = "slow"         // among the slowest of its method and target
	classRecent    = "recent"       // one a second of each method and target
)

func recentClasses() []string {
	return []string{
		classAbandoned, classPanic, classCancelled, classDropped, classRejected, classError, classCaller, classSlow, classRecent,
	}
}

// recents keeps requests that have ended: those that somebody will ask for. What
// becomes of an ordinary request is decided with three atomic loads.
type recents struct {
	bounds Recent
	now    func() time.Time
	spans  *spanKeeper
	rings  map[string]*ring // all classes but the slow one
	slow   *slowest
	seq    atomic.Uint64
}

func newRecents(bounds Recent, metrics *instruments, now func() time.Time) *recents {
	c := &recents{bounds: bounds.withDefaults(), now: now, rings: map[string]*ring{}}
	c.spans = newSpanKeeper(c.bounds, metrics)
	if c.bounds.Traces < 0 {
		return c
	}
	for _, class := range recentClasses() {
		if class != classSlow {
			c.rings[class] = newRing(c.bounds.Traces, metrics.counter(MetricTracesEvicted, class))
		}
	}
	c.slow = newSlowest(slowShare*c.bounds.Traces, metrics.counter(MetricTracesEvicted, classSlow))
	return c
}

// A recentSeries decides about the ordinary requests of one method and target.
type recentSeries struct {
	second atomic.Int64 // in which the latest one arrived that was kept
	floor  atomic.Int64 // ns; what took longer is among the slowest
	seen   atomic.Int32 // ordinary requests so far, up to enoughToCompare
	fell   time.Time    // when the floor fell to the ground. Guarded by slowest.mu
}

// enoughToCompare is how many ordinary requests of a series there must have been before the
// slowest of them are called slow: the first ones of a fresh server are among the slowest
// because there are no others. Until then they are recent.
const enoughToCompare = 20

// noFloor makes every request one of the slowest.
const noFloor = -1

// ended is told of every request at its end, before its span ends. The request must
// not be changing any more.
func (c *recents) ended(op *Operation, out *Outcome, errorType string) {
	if c.bounds.Traces < 0 {
		return
	}
	class := out.class(errorType, op)
	if class != "" {
		c.keep(class, op, out, errorType)
		return
	}
	standing := out.Acknowledged != 0 // the life of a subscription says nothing about speed
	if !standing && op.series.recent.seen.Load() < enoughToCompare {
		op.series.recent.seen.Add(1)
	}
	if !standing && int64(out.Settled) > op.series.recent.floor.Load() {
		c.keep(classSlow, op, out, errorType)
		return
	}
	second := int64(op.second)
	if last := op.series.recent.second.Load(); last != second && op.series.recent.second.CompareAndSwap(last, second) {
		for _, k := range c.slow.expire(&op.series.recent, c.now()) {
			c.spans.release(k.spans)
		}
		c.keep(classRecent, op, out, errorType)
	}
}

// class returns the class of a request, or "" for an ordinary one.
func (o *Outcome) class(errorType string, op *Operation) string {
	switch {
	case o.Rejected != "":
		return classRejected
	case op.abandoned:
		return classAbandoned
	case op.hasPanicked():
		return classPanic
	case o.Cancelled != nil:
		if o.Acknowledged != 0 && !o.Cancelled.Cause.Fault() {
			return "" // that is how subscriptions end
		}
		return classCancelled
	case o.Fate == FateDropped:
		return classDropped
	case errorType != "":
		return classError
	case o.Err != nil:
		return classCaller
	}
	return ""
}

func (c *recents) keep(class string, op *Operation, out *Outcome, errorType string) {
	g := c.rings[class]
	now := c.now()
	if g != nil && !g.admit(now.Unix()) {
		return
	}
	k := newKeptTrace(class, op, out, errorType)
	k.seq, k.ended = c.seq.Add(1), now
	k.row.ID = strconv.FormatUint(k.seq, 10)
	if op.sampled {
		k.spans = c.spans.hold(op.span.SpanContext().TraceID())
	}
	var displaced *keptTrace
	if g != nil {
		displaced = g.put(k)
	} else {
		displaced = c.slow.put(&op.series.recent, k)
	}
	if displaced != nil {
		c.spans.release(displaced.spans)
	}
}

// all returns everything that is kept, in no order.
func (c *recents) all() (list []*keptTrace) {
	if c.bounds.Traces < 0 {
		return nil
	}
	for _, g := range c.rings {
		list = g.appendTo(list)
	}
	return c.slow.appendTo(list)
}

// counts returns how many are kept, by class.
func (c *recents) counts() map[string]int {
	n := map[string]int{}
	if c.bounds.Traces < 0 {
		return n
	}
	for _, class := range recentClasses() {
		n[class] = 0
	}
	for _, k := range c.all() {
		n[k.row.Class]++
	}
	return n
}

// hasPanicked reports whether the handler has.
func (op *Operation) hasPanicked() bool {
	n := op.notes.Load()
	return n != nil && n.panicked
}
