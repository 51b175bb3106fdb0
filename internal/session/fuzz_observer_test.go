package session

import (
	"context"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// Begin opens the book of a request.
func (sc *script) Begin(ctx context.Context, r *Request) context.Context {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	tr := &fuzzTrace{r: r, end: sc.bySession[r.session], post: sc.byStream[r.stream]}
	switch {
	case tr.end != nil:
	case tr.post != nil:
		tr.end = tr.post.end
	default:
		tr.end = sc.newEnd()
	}
	tr.end.calls[r.ID.Key()]++
	sc.traces[r] = tr
	sc.order = append(sc.order, tr)
	return ctx
}

func (sc *script) with(w Work, f func(tr *fuzzTrace)) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	f(sc.traces[w.(*Request)])
}

// Rejected closes it. On a byte stream an id in flight belongs to the request that has it.
func (sc *script) Rejected(r *Request, reason mcp.RejectReason, _ *mcp.Error) {
	taken := r.session.uses(r.ID)
	sc.with(r, func(tr *fuzzTrace) {
		tr.rejected, tr.refused = reason, true
		if taken {
			tr.end.calls[r.ID.Key()]--
		}
	})
}

// Started implements [Observer].
func (sc *script) Started(r *Request) { sc.with(r, func(tr *fuzzTrace) { tr.started++ }) }

// Cancelled implements [Observer].
func (sc *script) Cancelled(w Work, err *mcp.CancelError, _ string) {
	sc.with(w, func(tr *fuzzTrace) { tr.cancels = append(tr.cancels, err) })
}

// Dropped implements [Observer].
func (sc *script) Dropped(r *Request, reason mcp.DropReason) {
	sc.with(r, func(tr *fuzzTrace) { tr.drops = append(tr.drops, reason) })
}

// Abandoned implements [Observer].
func (sc *script) Abandoned(w Work) { sc.with(w, func(tr *fuzzTrace) { tr.abandoned++ }) }

// Finished implements [Observer].
func (sc *script) Finished(w Work) { sc.with(w, func(tr *fuzzTrace) { tr.finished++ }) }

// Panicked implements [Observer].
func (sc *script) Panicked(w Work, _ any, _ []byte) {
	sc.with(w, func(*fuzzTrace) { sc.panicked++ })
}

// SessionOpened implements [Observer].
func (sc *script) SessionOpened(*Session) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.opened++
}

// SessionClosed implements [Observer].
func (sc *script) SessionClosed(*Session, mcp.Cause) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.closed++
}
