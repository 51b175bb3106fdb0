package session

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// This file says what holds after every schedule of every race.

// streamOver is the reason with which a test ends a stream that has no end.
const streamOver = mcp.DropStreamGone

// A recorder is an observer that keeps the fate of each request.
type recorder struct {
	NopObserver
	mu       sync.Mutex
	requests map[*Request]*record
	order    []*Request
	closed   map[*Session][]mcp.Cause
	// also is called in each callback, after it was recorded.
	also func(callback string, r *Request, s *Session)
}

// A record is what the observer was told of one request.
type record struct {
	rejected mcp.RejectReason
	taken    bool // its id was in flight, or its batch has used it: the answer must not carry it
	started  int
	finished int
	dropped  []mcp.DropReason
	causes   []mcp.Cause
	// seen is context.Cause of the handler's context when it was cancelled, unless the
	// handler had returned.
	seen error
}

func (o *recorder) of(r *Request, change func(*record)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.requests[r] == nil {
		o.requests[r] = &record{}
		o.order = append(o.order, r)
	}
	change(o.requests[r])
}

func (o *recorder) then(callback string, r *Request, s *Session) {
	if o.also != nil {
		o.also(callback, r, s)
	}
}

func (o *recorder) Begin(ctx context.Context, r *Request) context.Context {
	o.of(r, func(*record) {})
	o.then("Begin", r, r.session)
	return ctx
}

func (o *recorder) Rejected(r *Request, reason mcp.RejectReason, _ *mcp.Error) {
	taken := r.repeated || r.session.uses(r.ID)
	o.of(r, func(rec *record) { rec.rejected, rec.taken = reason, taken })
	o.then("Rejected", r, r.session)
}

func (o *recorder) Started(r *Request) {
	o.of(r, func(rec *record) { rec.started++ })
	o.then("Started", r, r.session)
}

func (o *recorder) Cancelled(w Work, err *mcp.CancelError, _ string) {
	r := w.(*Request)
	o.of(r, func(rec *record) {
		rec.causes = append(rec.causes, err.Cause)
		rec.seen = context.Cause(r.ctx)
	})
	o.then("Cancelled", r, r.session)
}

func (o *recorder) Dropped(r *Request, reason mcp.DropReason) {
	o.of(r, func(rec *record) { rec.dropped = append(rec.dropped, reason) })
	o.then("Dropped", r, r.session)
}

func (o *recorder) Finished(w Work) {
	r := w.(*Request)
	o.of(r, func(rec *record) { rec.finished++ })
	o.then("Finished", r, r.session)
}

func (o *recorder) Panicked(w Work, _ any, _ []byte) {
	o.then("Panicked", w.(*Request), w.(*Request).session)
}

func (o *recorder) Abandoned(w Work) { o.then("Abandoned", w.(*Request), w.(*Request).session) }

func (o *recorder) Notified(ctx context.Context, _ *Inbound, s *Session) (context.Context, func()) {
	o.then("Notified", nil, s)
	return ctx, func() { o.then("Notified end", nil, s) }
}

func (o *recorder) Written(*Conn, int, time.Duration) { o.then("Written", nil, nil) }

func (o *recorder) SessionOpened(s *Session) { o.then("SessionOpened", nil, s) }

func (o *recorder) SessionClosed(s *Session, cause mcp.Cause) {
	o.mu.Lock()
	if o.closed == nil {
		o.closed = map[*Session][]mcp.Cause{}
	}
	o.closed[s] = append(o.closed[s], cause)
	o.mu.Unlock()
	o.then("SessionClosed", nil, s)
}

// closedFor returns the causes with which a session's end was announced: one, or
// something is wrong.
func (o *recorder) closedFor(s *Session) []mcp.Cause {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.closed[s])
}

// request returns the n-th request that has arrived, from 0.
func (x *explorer) request(n int) (*Request, *record) {
	x.t.Helper()
	x.record.mu.Lock()
	defer x.record.mu.Unlock()
	require.Greater(x.t, len(x.record.order), n)
	r := x.record.order[n]
	return r, x.record.requests[r]
}

// connect opens a byte stream whose handshake is done.
func (x *explorer) connect() *peer {
	p := x.world.connect(true)
	x.wire(p.s.stream, p.sink)
	return p
}

func (x *explorer) wire(st *stream.Stream, sink *scriptSink) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.wires[st] = sink
}

// post sends a request by HTTP; s is nil for a modern one.
func (x *explorer) post(s *Session, frame string) *exchange {
	e := x.exchangeFor(frame)
	in, _ := inbound(httpConn, frame)
	if s == nil {
		x.core.Receive(in, e.stream)
	} else {
		s.ReceiveOn(in, e.stream)
	}
	return e
}

// exchangeFor opens the exchange for one request.
func (x *explorer) exchangeFor(frame string) *exchange {
	in, _ := inbound(httpConn, frame)
	return x.keep(x.world.exchange(1, in.Era))
}

// get opens a session's own stream.
func (x *explorer) get(s *Session) (*exchange, bool) {
	e, ok := x.world.get(s)
	return x.keep(e), ok
}

func (x *explorer) keep(e *exchange) *exchange {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.wires[e.stream] = e.sink
	x.posts = append(x.posts, e)
	return e
}

// A wireFrame is what the oracle wants to know of a frame.
type wireFrame struct {
	ID     json.RawMessage
	Method string
	Result json.RawMessage
	Error  *struct {
		Code mcp.Code
		Data struct{ Reason string }
	}
	Params struct{ ProgressToken json.RawMessage }
}

// decodeFrames decodes frames; an array is what is in it.
func decodeFrames(t *testing.T, frames []string) (all []wireFrame) {
	for _, text := range frames {
		several := []wireFrame{{}}
		var to any = &several[0]
		if strings.HasPrefix(text, "[") {
			to = &several
		}
		if err := json.Unmarshal([]byte(text), to); err != nil || len(several) == 0 {
			t.Fatalf("%s: %v", text, err)
		}
		all = append(all, several...)
	}
	return all
}

// verify checks the invariants at rest.
func (x *explorer) verify() {
	x.t.Helper()
	for _, a := range x.actors {
		x.mu.Lock()
		done := a.done
		x.mu.Unlock()
		require.True(x.t, done, "%s has not come to an end", a.name)
	}
	x.conserved() // with what it says of live and outbound requests
	x.resting()
	answers := map[*stream.Stream]map[string]int{} // that must be on the wire
	spare := map[*stream.Stream]map[string]int{}   // that may be: of rejected requests
	for _, r := range x.record.order {
		rec := x.record.requests[r]
		count := answers
		if rec.rejected != "" {
			require.Zero(x.t, rec.started+rec.finished+len(rec.causes)+len(rec.dropped), "a rejected request")
			if rec.taken {
				continue
			}
			count = spare
		} else if fate := x.verifyRequest(r, rec); fate != FateSent {
			continue
		}
		if count[r.stream] == nil {
			count[r.stream] = map[string]int{}
		}
		count[r.stream][string(r.ID.Raw())]++
	}
	for st, sink := range x.wires {
		x.verifyWire(decodeFrames(x.t, sink.frames()), answers[st], spare[st])
	}
	for _, e := range x.posts {
		if !e.stream.Standing() {
			require.True(x.t, e.ended(), "an exchange has not ended: %q", e.sink.frames())
		}
	}
}

// resting checks that nothing is queued, waiting, or taken.
func (x *explorer) resting() {
	x.t.Helper()
	require.Zero(x.t, x.core.waiting.Len(), "requests wait for slots")
	require.Zero(x.t, x.core.unread.Total(), "answers wait for their readers")
	for name, p := range x.core.pools() {
		u := p.Usage()
		x.must(u.Used+u.Waiters == 0, "%s: %+v", name, u)
	}
	for st := range x.wires {
		queued, _, bytes := st.Waiting()
		x.must(len(queued) == 0 && bytes == 0, "%d messages and %d bytes in a stream's queue", len(queued), bytes)
	}
	for _, s := range x.core.allSessions() {
		var outbound, waitingCalls, early, live int
		s.update(func(st *state) {
			outbound, waitingCalls, early, live = len(st.outbound), len(st.waitingCalls), len(st.early), len(st.live)
		})
		x.must(outbound+waitingCalls+early+live == 0, "%d outbound requests, %d of them without a stream, %d too early, %d live requests",
			outbound, waitingCalls, early, live)
		n := int64(x.core.limits.MaxInFlight)
		require.True(x.t, s.slots.TryAcquire(n), "a session's slots are taken")
		s.slots.Release(n)
		require.Zero(x.t, s.waiting.waiting.Load(), "requests wait for a session's slots")
	}
}

// must is require without its cost: the oracle looks at a hundred thousand requests.
func (x *explorer) must(ok bool, format string, args ...any) {
	if !ok {
		x.t.Fatalf(format, args...)
	}
}

// verifyRequest checks that a request has one cause, one outcome and one fate, and
// that they fit together.
func (x *explorer) verifyRequest(r *Request, rec *record) Fate {
	fate, reason := r.Fate()
	x.must(fate != FateUnknown, "request %s has no fate", r.ID)
	x.must(rec.finished == 1 && rec.started <= 1, "request %s: started %d times, finished %d times", r.ID, rec.started, rec.finished)
	cause := mcp.Cause("")
	if err, _ := r.Cancellation(); err != nil {
		cause = err.Cause
		x.must(len(rec.causes) == 1 && rec.causes[0] == cause, "request %s: cause %s, announced %v", r.ID, cause, rec.causes)
		x.must(rec.seen == mcp.ErrRequestDone || rec.seen == error(err), "request %s: cause %s, the handler sees %v", r.ID, cause, rec.seen)
	} else {
		x.must(len(rec.causes) == 0, "request %s: no cause, announced %v", r.ID, rec.causes)
	}
	if fate == FateDropped {
		x.must(len(rec.dropped) == 1 && rec.dropped[0] == reason, "request %s: dropped %s, announced %v", r.ID, reason, rec.dropped)
	} else {
		x.must(len(rec.dropped) == 0, "request %s: %s, announced %v", r.ID, fate, rec.dropped)
	}
	x.must(fits(r, fate, reason, cause), "request %s: %s %s does not fit cause %q and error %v", r.ID, fate, reason, cause, r.Error())
	return fate
}

// fits reports whether a cause and what became of the answer are of one story.
func fits(r *Request, fate Fate, reason mcp.DropReason, cause mcp.Cause) bool {
	switch {
	case fate == FateSent:
		return slices.Contains(answered(r.Error()), cause)
	case reason == mcp.DropCancelled:
		// The client can give up a request whose handler was told to hurry already.
		return slices.Contains([]mcp.Cause{mcp.CauseClientCancel, mcp.CauseClientDisconnect,
			mcp.CauseTransportClose, mcp.CauseServerShutdown}, cause)
	case reason == mcp.DropSessionGone:
		return slices.Contains([]mcp.Cause{"", mcp.CauseSessionDelete, mcp.CauseSessionEvicted, mcp.CauseSessionIdle}, cause)
	}
	return true // the writer has lost an answer, whatever it says
}

// answered returns the causes that fit an answer that was sent.
func answered(err *mcp.Error) []mcp.Cause {
	patient := []mcp.Cause{"", mcp.CauseTransportClose, mcp.CauseServerShutdown}
	if err == nil {
		return patient
	}
	if err.Code == mcp.CodeRequestCancelled {
		return []mcp.Cause{mcp.CauseClientCancel}
	}
	data, _ := err.Data.(mcp.ErrorData)
	switch cause := mcp.Cause(data.Reason); {
	case data.Reason == string(mcp.RejectShuttingDown):
		return []mcp.Cause{mcp.CauseServerShutdown}
	case cause == mcp.CauseDeadline:
		// A handler that was told to hurry can still miss its deadline.
		return []mcp.Cause{mcp.CauseDeadline, mcp.CauseTransportClose, mcp.CauseServerShutdown}
	case slices.Contains(mcp.Causes(), cause):
		return []mcp.Cause{cause}
	}
	return patient
}

// verifyWire checks that each id has the answers that were counted as sent, and that
// nothing about a request follows its answer.
func (x *explorer) verifyWire(frames []wireFrame, want, spare map[string]int) {
	got := map[string]int{}
	for _, f := range frames {
		if f.Method == "" && len(f.ID) > 0 {
			got[string(f.ID)]++
		}
		token := string(f.Params.ProgressToken)
		x.must(token == "" || got[token] == 0, "a notification follows the answer to %s", token)
	}
	for id, n := range got {
		x.must(want[id] <= n && n <= want[id]+spare[id], "%d answers to %s on the wire, %d counted as sent", n, id, want[id])
	}
	for id, n := range want {
		x.must(n <= got[id], "%d answers to %s on the wire, %d counted as sent", got[id], id, n)
	}
}

// kindOf names an answer: "result", or the reason or the code of its error.
func kindOf(f wireFrame) string {
	switch {
	case f.Error == nil:
		return "result"
	case f.Error.Data.Reason != "":
		return f.Error.Data.Reason
	}
	return fmt.Sprint(f.Error.Code)
}

// kinds names the answers among frames, in order.
func (x *explorer) kinds(sink *scriptSink) (kinds []string) {
	x.t.Helper()
	for _, f := range decodeFrames(x.t, sink.frames()) {
		if f.Method == "" {
			kinds = append(kinds, kindOf(f))
		}
	}
	return kinds
}

// methods names the notifications and calls among frames, in order.
func (x *explorer) methods(sink *scriptSink) (methods []string) {
	x.t.Helper()
	for _, f := range decodeFrames(x.t, sink.frames()) {
		if f.Method != "" {
			methods = append(methods, f.Method)
		}
	}
	return methods
}
