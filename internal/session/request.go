package session

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/share"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Request is one inbound request from its arrival to the moment when its
// handler has returned and the fate of its answer is known. Handlers may use it
// from any goroutine.
type Request struct {
	*Inbound
	Route *Route
	work

	session *Session // nil for a modern HTTP exchange
	stream  *stream.Stream

	ctx     context.Context // the handler's
	values  valuesContext   // what ctx has from outside
	bounded requestContext

	alarm atomic.Pointer[alarm] // of the deadline
	// The times of events are in ns after the arrival; 0 is not yet.
	startedAt   atomic.Int64 // the handler was called
	settledAt   atomic.Int64
	handlerDone atomic.Int64  // the handler has returned
	settledIn   atomic.Uint32 // the Phase of the settle
	blocked     blockedTime
	stages      atomic.Pointer[Stages] // nil without middlewares
	key         atomic.Uint64          // see Key; 0: no page has shown it
	decoded     atomic.Int64           // ns for the arguments
	encoded     atomic.Int64           // ns for the output

	verdict verdict
	phase   atomic.Uint32 // a Phase
	asked   atomic.Bool   // it may have outbound requests
	decided chan struct{} // closed at the settle of a handshake; nil for all others
	slots   slots
	caller  *share.Caller // to whom its slots and its place in the queue are counted
	place   *share.Place  // in the queue, if it had to wait
	placing atomic.Int32  // whether it is in the tables, see [Request.placed]
	orphan  atomic.Pointer[time.Timer]
	expired atomic.Bool // a subscription that has ended with its token
	// acknowledged is when it has become a subscription, in ns after the arrival; 0 is not yet.
	acknowledged atomic.Int64

	// rejected is why a request that was admitted gets the answer of a rejected one, or "".
	rejected mcp.RejectReason

	reply    stream.Message
	buffer   *[]byte // of the frame of a result; nil if none was encoded
	replyErr atomic.Pointer[mcp.Error]
	// decision is what the policies have decided, see [Request.SetDecision].
	decision atomic.Pointer[auth.Decision]

	// Guarded by lane.mu.
	reason mcp.DropReason
	fate   Fate

	// Written before the request is admitted.
	hidden   bool // its target does not exist for the caller
	hasPlace bool // it has a place among the subscriptions
	queued   bool // it had to wait for its slots
}

// A Fate is what became of a request's answer.
type Fate uint8

const (
	FateUnknown Fate = iota
	FateSent         // handed to the kernel and flushed: not a proof that it was read
	FateStored       // kept for replay
	FateDropped
)

// String returns the value of the attribute vitrine.response.outcome.
func (f Fate) String() string {
	return [...]string{"", "sent", "stored", "dropped"}[f]
}

// A Phase is where a request is, as the snapshot shows it.
type Phase uint32

const (
	PhaseQueued    Phase = iota
	PhaseRunning         // in middleware or the handler
	PhaseBlocked         // the handler waits for the client's answer
	PhaseWriting         // settled with an answer that is on its way
	PhaseListening       // a subscription that was acknowledged
)

// String returns the state of a request in this phase.
func (p Phase) String() string {
	return [...]string{"queued", "running", "blocked", "writing", "listening"}[p]
}

// SettledIn returns the phase in which the outcome of the request was decided. Before that it returns
// PhaseQueued.
func (r *Request) SettledIn() Phase { return Phase(r.settledIn.Load()) }

// valuesContext has the values of a context, and not its end. It is what
// context.WithoutCancel, the plain version, makes, as a part of the request.
type valuesContext struct{ context.Context }

func (*valuesContext) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }
func (*valuesContext) Done() <-chan struct{}                   { return nil }
func (*valuesContext) Err() error                              { return nil }

// requestContext is the context of a handler: it is cancelled by the core alone,
// always with a *mcp.CancelError, and knows the request's deadline although the
// core's own timer enforces it (so that the outcome and the cause are decided in
// one place).
type requestContext struct {
	context.Context
	deadline time.Time
}

func (c *requestContext) Deadline() (time.Time, bool) { return c.deadline, true }

func (c *requestContext) Err() error {
	err := c.Context.Err()
	if err != nil {
		if cause, ok := mcp.CauseOf(c.Context); ok && cause == mcp.CauseDeadline {
			return context.DeadlineExceeded
		}
	}
	return err
}

func (r *Request) labels() *Series          { return r.Route.Series }
func (r *Request) context() context.Context { return r.ctx }
func (r *Request) started() bool            { return r.verdict.started() }
func (r *Request) number() string           { return "id " + r.ID.String() }

// onByteStream reports whether the request has come over a byte stream.
func (r *Request) onByteStream() bool { return r.session != nil && r.session.stream != nil }

// Session returns the request's session, or nil for a modern HTTP exchange.
func (r *Request) Session() *Session { return r.session }

// ArrivedAt returns when the request arrived.
func (r *Request) ArrivedAt() time.Time { return r.began }

// Deadline returns when the request is answered with an error if nothing else happens.
func (r *Request) Deadline() time.Time { return r.bounded.deadline }

// QueueWait returns how long the request waited for a slot, and false while it
// still waits or if its handler was never called.
func (r *Request) QueueWait() (time.Duration, bool) {
	d := r.startedAt.Load()
	return time.Duration(d), d != 0
}

// HandlerDone returns the time from arrival to the return of the handler, and
// false while it runs or if it was never called.
func (r *Request) HandlerDone() (time.Duration, bool) {
	d := r.handlerDone.Load()
	return time.Duration(d), d != 0
}

// Blocked returns how long the handler has waited for answers of the client so far.
func (r *Request) Blocked() time.Duration { return r.blocked.total() }

// Latency returns the time from arrival to the outcome, and to now before that.
func (r *Request) Latency() time.Duration {
	if d := r.settledAt.Load(); d != 0 {
		return time.Duration(d)
	}
	return time.Since(r.began)
}

// Settled reports whether it is decided if the request gets an answer.
func (r *Request) Settled() bool { return r.verdict.outcome() != open }

// Fate returns what became of the answer, and the reason if it was dropped.
func (r *Request) Fate() (Fate, mcp.DropReason) {
	r.lane.mu.Lock()
	defer r.lane.mu.Unlock()
	return r.fate, r.reason
}

// Error returns the JSON-RPC error that the request was settled with, or nil.
func (r *Request) Error() *mcp.Error { return r.replyErr.Load() }

// ReplyBytes returns the size of the answer in bytes, or 0 if there is none.
func (r *Request) ReplyBytes() int { return r.reply.Size() }
