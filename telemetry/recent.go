package telemetry

import (
	"sync/atomic"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// recentTraces has the records of ended requests that are worth a look. The decision about an ordinary
// request takes three atomic loads.
type recentTraces struct {
	bounds Recent
	now    func() time.Time
	spans  *spanBuffer
	rings  map[string]*ring // of all classes except the slow one
	slow   *slowest
	seq    atomic.Uint64
	texts  interned
}

func newRecentTraces(bounds Recent, metrics *instruments, now func() time.Time) *recentTraces {
	c := &recentTraces{bounds: bounds.withDefaults(), now: now, rings: map[string]*ring{}}
	c.spans = newSpanBuffer(c.bounds, metrics)
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

// ended decides about a request that has ended, before its span ends. The request must not change
// any more. It returns the record, or nil if the request is not kept.
func (c *recentTraces) ended(op *Operation, out *Outcome, errorType string) *record {
	if c.bounds.Traces < 0 {
		return nil
	}
	class := out.class(errorType, op)
	if class != "" {
		return c.add(class, op, out, errorType)
	}
	if !out.Streams { // how long a call that streams lasts says nothing about its health
		if op.series.recent.seen.Load() < enoughToCompare {
			op.series.recent.seen.Add(1)
		}
		if int64(out.Settled) > op.series.recent.floor.Load() {
			return c.add(classSlow, op, out, errorType)
		}
	}
	second := op.arrived / int64(time.Second)
	if last := op.series.recent.second.Load(); last != second && op.series.recent.second.CompareAndSwap(last, second) {
		for _, k := range c.slow.expire(&op.series.recent, c.now()) {
			c.spans.release(k.spans)
		}
		return c.add(classRecent, op, out, errorType)
	}
	return nil
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
			return classSubscription // it ends so
		}
		return classCancelled
	case o.Fate == FateDropped:
		return classDropped
	case errorType != "":
		return classError
	case o.Err != nil || o.ToolError: // with an errorType they are an error of the service
		return classCaller
	case o.Acknowledged != 0:
		return classSubscription
	}
	return ""
}

// add adds a record of a request, unless its class is full. Then it returns nil.
func (c *recentTraces) add(class string, op *Operation, out *Outcome, errorType string) *record {
	g := c.rings[class]
	now := c.now()
	admitted := g == nil || g.admit(now.Unix())
	info := op.info()
	if !admitted && !g.favours(ringKeyOf(class, op, &info, out, errorType)) {
		g.evicted.Inc()
		return nil
	}
	k := newRecord(class, op, &info, out, errorType)
	k.seq, k.ended = c.seq.Add(1), now
	if op.sampled {
		k.spans = c.spans.hold(op.span.SpanContext().TraceID())
	}
	var displaced *record
	if g != nil {
		displaced = g.put(k)
	} else {
		displaced = c.slow.put(&op.series.recent, k)
	}
	if displaced != nil {
		c.spans.release(displaced.spans)
	}
	return k
}

// all returns all traces in no order.
func (c *recentTraces) all() (list []*record) {
	if c.bounds.Traces < 0 {
		return nil
	}
	for _, g := range c.rings {
		list = g.appendTo(list)
	}
	return c.slow.appendTo(list)
}

// counts returns the number of traces by class.
func (c *recentTraces) counts() map[string]int {
	n := map[string]int{}
	if c.bounds.Traces < 0 {
		return n
	}
	for _, class := range recentClasses() {
		n[class] = 0
	}
	for _, k := range c.all() {
		n[k.class]++
	}
	return n
}

// full returns the classes whose rings are full.
func (c *recentTraces) full() (classes []string) {
	for _, class := range recentClasses() {
		if g := c.rings[class]; g != nil && g.isFull() {
			classes = append(classes, class)
		}
	}
	return classes
}

// ringKeyOf returns the line of a request in the ring of its class.
func ringKeyOf(class string, op *Operation, info *Info, out *Outcome, errorType string) ringKey {
	client, _ := info.client(op.series.tel.clients)
	return ringKey{endOf(class, out.cause(), out.Rejected, out.Dropped, errorType), ringLine{client, op.series.key.target}}
}

// ringKey returns the line of the record in the ring of its class.
func (k *record) ringKey() ringKey {
	return ringKey{endOf(k.class, k.cause, k.rejected, k.dropped, k.errorType), ringLine{k.client, k.series.key.target}}
}

// endOf returns what tells requests of one class apart by their end, from a small set.
func endOf(class string, cause mcp.Cause, rejected mcp.RejectReason, dropped mcp.DropReason, errorType string) string {
	switch class {
	case classCancelled, classAbandoned, classSubscription:
		return string(cause)
	case classRejected:
		return string(rejected)
	case classDropped:
		return string(dropped)
	}
	return errorType
}
