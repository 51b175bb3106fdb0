package telemetry

import (
	"context"
	"errors"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// tracked is what is remembered of an operation whose server is no [Source].
type tracked struct {
	tracker  *tracker
	op       *Operation
	info     Info // does not change
	exchange *exchange
	ctx      context.Context // the handler's
	unwatch  func() bool
	counts   *SeriesCounters

	// Guarded by tracker.mu.
	queued, admitted, abandoned, lost, ended bool

	// After the arrival; 0 is not yet.
	started, acknowledged, cancelledAfter time.Duration
	cancelled                             *mcp.CancelError
}

// tracked returns what is remembered of the operation; nil if its server is a source.
func (op *Operation) tracked() *tracked {
	tr, _ := op.origin.(*tracked)
	return tr
}

// Describe implements [Origin].
func (tr *tracked) Describe() Info { return tr.info }

// age returns the time since the arrival, and never 0.
func (tr *tracked) age() time.Duration { return max(time.Since(tr.info.ArrivedAt), 1) }

// begin starts the span. If what users have plugged in panics, there is none.
func (tr *tracked) begin(ctx context.Context) (handler context.Context) {
	op := tr.op
	defer func() {
		if v := recover(); v != nil {
			op.span, op.sampled, op.recording, handler = noSpan, false, false, ctx
			op.series.tel.panicked("operation", v, true)
		}
	}()
	return op.begin(ctx, &tr.info)
}

// contain is deferred by the methods of an operation: a panic of what users have plugged
// in costs what was to be recorded. The server of any other operation contains it itself.
func (tr *tracked) contain() {
	if v := recover(); v != nil {
		tr.op.series.tel.panicked("operation", v, true)
	}
}

// admit counts the operation as admitted, once. The caller must hold tracker.mu. It is done
// when somebody sees the operation, or at its end: until then it may still be rejected.
func (tr *tracked) admit() {
	if !tr.admitted {
		tr.admitted = true
		tr.counts.Admitted++
	}
}

// watch looks out for the end of the context, whose cause may be known.
func (tr *tracked) watch(ctx context.Context, x *exchange) {
	tr.ctx, tr.exchange = ctx, x
	tr.unwatch = context.AfterFunc(ctx, func() {
		if cancel := tr.causeOf(); cancel != nil {
			tr.op.Cancelled(cancel.Cause, cancel.Detail)
		}
	})
}

// causeOf returns why the context has ended; nil if that is not known, or it has not.
func (tr *tracked) causeOf() *mcp.CancelError {
	if tr.ctx == nil || tr.ctx.Err() == nil {
		return nil
	}
	var known *mcp.CancelError
	switch err := context.Cause(tr.ctx); {
	case errors.As(err, &known):
		return known
	case errors.Is(err, context.DeadlineExceeded):
		return &mcp.CancelError{Cause: mcp.CauseDeadline}
	case tr.exchange.lost():
		return &mcp.CancelError{Cause: mcp.CauseClientDisconnect}
	}
	return nil
}

// update changes what is guarded by tracker.mu.
func (tr *tracked) update(change func()) {
	tr.tracker.mu.Lock()
	defer tr.tracker.mu.Unlock()
	change()
}

// cancel remembers the first cancellation; false if this is not the first, or too late.
func (tr *tracked) cancel(cause mcp.Cause, detail string) (first bool) {
	after := tr.age()
	tr.update(func() {
		if first = tr.cancelled == nil && !tr.ended; first {
			tr.cancelled, tr.cancelledAfter = &mcp.CancelError{Cause: cause, Detail: detail}, after
			tr.counts.Cancelled[cause]++
		}
	})
	return first
}

// drop remembers that it was said that the answer is lost; false if it was said before.
func (tr *tracked) drop() (first bool) {
	tr.update(func() { first, tr.lost = !tr.lost, true })
	return first
}

// complete fills in what the outcome leaves out; false if the operation has ended.
func (tr *tracked) complete(out *Outcome, last bool) bool {
	if cancel := tr.causeOf(); cancel != nil { // if it is known here first
		tr.op.Cancelled(cancel.Cause, cancel.Detail)
	}
	now := tr.age()
	tr.tracker.mu.Lock()
	if tr.ended || tr.abandoned && !last {
		tr.tracker.mu.Unlock()
		return false
	}
	tr.ended = last
	out.Started, out.Acknowledged, out.Settled = tr.started, tr.acknowledged, now
	if last && tr.started != 0 {
		out.Returned = now
	}
	if out.Cancelled == nil {
		out.Cancelled, out.CancelledAfter = tr.cancelled, tr.cancelledAfter
	} else if out.CancelledAfter == 0 {
		out.CancelledAfter = now
	}
	if out.RequestBytes == 0 {
		out.RequestBytes = tr.info.Bytes
	}
	if out.Dropped != "" {
		out.Fate = FateDropped
	}
	tr.tracker.mu.Unlock()
	if out.Fate == FateDropped {
		tr.op.Dropped(out.Dropped)
	}
	return true
}

// leave takes the operation out of the live set and counts its end.
func (tr *tracked) leave(out *Outcome) {
	tr.unwatch()
	k := tr.tracker
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.live, tr)
	k.refuse(out.Err)
	if out.Rejected != "" {
		k.own.Rejected[out.Rejected]++
		if !tr.admitted {
			return
		}
	}
	tr.admit()
	switch out.Fate {
	case FateDropped:
		tr.counts.Dropped[out.Dropped]++
	case FateStored:
		tr.counts.Stored++
	default:
		tr.counts.Sent++
	}
}

// row describes the operation at a moment. The caller must hold tracker.mu.
func (tr *tracked) row(now time.Time) RequestState {
	row := RequestState{
		Origin: tr, Operation: tr.op, State: report.StateRunning, Age: max(now.Sub(tr.info.ArrivedAt), 0),
		Cancelled: tr.cancelled, Abandoned: tr.abandoned,
	}
	switch {
	case tr.cancelled != nil:
		row.State, row.CancelledFor = report.StateCancelled, max(row.Age-tr.cancelledAfter, 0)
	case tr.acknowledged != 0:
		row.State = report.StateListening
	case tr.queued:
		row.State = report.StateQueued
	}
	return row
}
