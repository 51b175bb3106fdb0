package stream

import (
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// Hurry bounds all writes from now on, also one that blocks already.
func (st *Stream) Hurry(bound time.Time) {
	st.mu.Lock()
	defer st.mu.Unlock()
	w := &st.wire
	w.end = bound
	if w.sink != nil && w.writing && (w.deadline.IsZero() || bound.Before(w.deadline)) {
		w.deadline, w.limited = bound, w.sink
		w.sink.SetWriteDeadline(bound)
	}
}

// bound sets the deadline of the write that begins now, unless it is that of a quick answer.
// It does so under st.mu, or the bound of an end that comes at the same moment would be lost.
func (st *Stream) bound(sink Sink, now time.Time) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.wire.writing = true
	if !st.quick.Load() {
		st.limitWrite(sink, now)
	}
}

// limitWrite sets the deadline of a write that begins now. A deadline that is in force stays if it leaves nine tenths of the time,
// because a stream may have many small events. The plain version sets it for each write. With that, a change that 1,000
// listeners are told of takes 7 % more CPU time, that of the clients included (BenchmarkResourceUpdate of package server).
// The caller must hold st.mu.
func (st *Stream) limitWrite(sink Sink, now time.Time) {
	w := &st.wire
	deadline := now.Add(st.host.Limits.WriteTimeout)
	if !w.end.IsZero() && w.end.Before(deadline) {
		deadline = w.end
	}
	if until := st.exchanges.until; st.detached() && until.Before(deadline) {
		deadline = until // another exchange may wait
	}
	if sooner := deadline.Sub(w.deadline); w.limited == sink && sooner >= 0 && sooner < deadline.Sub(now)/10 {
		return
	}
	w.deadline, w.limited = deadline, sink
	sink.SetWriteDeadline(deadline)
}

// rest removes the deadline of a sink that waits for something to write, if it would take effect meanwhile.
func (st *Stream) rest(sink Sink) {
	r, ok := sink.(IdleResetter)
	if !ok || !r.ResetsWhenIdle() {
		return
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if w := &st.wire; w.limited == sink {
		w.limited = nil
		sink.SetWriteDeadline(time.Time{})
	}
}

// extend gives each message the time that one write may take, whatever the ones before
// it in the batch have needed: four fifths of the time at least. last is when that was looked at; it is done again only when
// a tenth of the time has passed. extend returns when it was done last.
func (st *Stream) extend(sink Sink, last time.Time) time.Time {
	if st.quick.Load() {
		return last // the alarm of the request sees to it
	}
	now := time.Now()
	if now.Sub(last) < st.host.Limits.WriteTimeout/10 {
		return last
	}
	st.bound(sink, now)
	return now
}

// End lets the writer finish what is queued until the given time and then stop. Of
// the requests of the stream so many were settled with an answer, and all those
// answers are waited for: one that is being encoded is not queued yet.
func (st *Stream) End(bound time.Time, answers int) {
	st.mu.Lock()
	st.owed = answers - st.answered
	if st.owed > 0 {
		st.enter(ending)
		time.AfterFunc(time.Until(bound), func() { st.Fail(mcp.DropClosedWriter) })
	} else {
		st.enter(ended)
	}
	st.mu.Unlock()
	st.Hurry(bound)
	st.signal()
}
