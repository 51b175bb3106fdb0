package telemetry

import (
	"strconv"
	"sync/atomic"
	"time"
)

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
