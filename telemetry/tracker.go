package telemetry

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/telemetry/state"
)

// Bounds for servers that are no [Source].
const (
	maxTracked       = 10000 // operations, and sessions, that are shown; the others are counted only
	maxTrackedSeries = 1000  // pairs of method and target; the others have the target _OTHER
)

// A tracker is the [Source] for servers that are no sources. It has the live set and the counters
// of their operations.
type tracker struct {
	known map[string]bool // the methods of the protocol
	add   func()          // adds the tracker to the sources, once

	mu       sync.Mutex // guards the rest, and the state of all operations
	live     map[*tracked]struct{}
	sessions map[*trackedSession]struct{}
	counts   map[*Series]*state.SeriesCounters
	own      state.Counters // without series
}

func newTracker(add func(Source)) *tracker {
	k := &tracker{
		known: map[string]bool{}, live: map[*tracked]struct{}{}, sessions: map[*trackedSession]struct{}{},
		counts: map[*Series]*state.SeriesCounters{},
		own: state.Counters{
			Received: map[string]uint64{}, Rejected: map[mcp.RejectReason]uint64{}, SessionsClosed: map[mcp.Cause]uint64{},
			Refused: map[string]map[string]uint64{},
		},
	}
	for _, method := range mcp.Methods() {
		k.known[method] = true
	}
	k.add = sync.OnceFunc(func() { add(k) })
	return k
}

// track begins an operation of a server that is no source.
func (t *Telemetry) track(ctx context.Context, info Info) (context.Context, *Operation) {
	k := t.tracked
	k.add()
	x := exchangeOf(ctx)
	x.complete(&info)
	if info.ArrivedAt.IsZero() {
		info.ArrivedAt = time.Now()
	}
	if info.Series == nil {
		info.Series = k.seriesOf(t, &info)
	}
	tr := &tracked{tracker: k, info: info, queued: info.Queued}
	op := &Operation{series: info.Series, origin: tr}
	tr.op = op
	if !info.Queued {
		tr.started = 1 // it was called at once; 0 stands for never
	}
	ctx = tr.begin(ctx)
	k.enter(tr)
	tr.watch(ctx, x)
	return ctx, op
}

// seriesOf returns the series of an operation by its method and target.
func (k *tracker) seriesOf(t *Telemetry, info *Info) *Series {
	method, target := info.Method, info.Target
	if !k.known[method] {
		method, target = other, ""
	}
	all := t.series.load()
	if _, ok := all[seriesKey{method, target}]; !ok && len(all) >= maxTrackedSeries && target != "" {
		target = other
	}
	return t.Series(method, target)
}

// enter adds an operation to the live set.
func (k *tracker) enter(tr *tracked) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.own.Received["request"]++
	tr.counts = k.countsOf(tr.op.series)
	if len(k.live) < maxTracked {
		k.live[tr] = struct{}{}
	} else {
		tr.admit()
	}
}

// countsOf returns the counters of a series. The caller must hold k.mu.
func (k *tracker) countsOf(s *Series) *state.SeriesCounters {
	c := k.counts[s]
	if c == nil {
		c = &state.SeriesCounters{
			Method: s.key.method, Target: s.key.target, Dropped: map[mcp.DropReason]uint64{},
			Cancelled: map[state.CancelledIn]uint64{}, Abandoned: map[mcp.Cause]uint64{},
		}
		k.counts[s] = c
	}
	return c
}

// Snapshot implements [Source].
func (k *tracker) Snapshot() *Snapshot {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	snap := &Snapshot{At: now, Counters: state.Counters{
		Received: maps.Clone(k.own.Received), Rejected: maps.Clone(k.own.Rejected), SessionsClosed: maps.Clone(k.own.SessionsClosed),
		Refused: k.refused(),
	}}
	for tr := range k.live {
		tr.admit()
		row := tr.row(now)
		if row.State == report.StateListening || tr.acknowledged != 0 {
			snap.Subscriptions = append(snap.Subscriptions, row)
		} else {
			snap.Requests = append(snap.Requests, row)
		}
	}
	for s := range k.sessions {
		snap.Sessions = append(snap.Sessions, s.row(now))
	}
	for _, c := range k.counts {
		copied := *c
		copied.Dropped, copied.Cancelled, copied.Abandoned = maps.Clone(c.Dropped), maps.Clone(c.Cancelled), maps.Clone(c.Abandoned)
		snap.Counters.Series = append(snap.Counters.Series, copied)
	}
	return snap
}

// tracked is the state of an operation of a server that is no [Source].
type tracked struct {
	tracker  *tracker
	op       *Operation
	info     Info // does not change
	exchange *exchange
	ctx      context.Context // the handler's
	unwatch  func() bool
	counts   *state.SeriesCounters

	// Guarded by tracker.mu.
	queued, admitted, abandoned, lost, ended bool

	// Times since the arrival; 0 stands for not yet.
	started, acknowledged, cancelledAfter time.Duration
	cancelled                             *mcp.CancelError
}

// tracked returns the state of the operation. It is nil if the server is a source.
func (op *Operation) tracked() *tracked {
	tr, _ := op.origin.(*tracked)
	return tr
}

// Describe implements [Origin].
func (tr *tracked) Describe() Info { return tr.info }

// age returns the time since the arrival. It is never 0.
func (tr *tracked) age() time.Duration { return max(time.Since(tr.info.ArrivedAt), 1) }

// begin starts the span. If an extension of the user panics, there is no span.
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

// contain is deferred by the methods of an operation. It contains panics of the user's extensions. A
// server that is a source contains them itself.
func (tr *tracked) contain() {
	if v := recover(); v != nil {
		tr.op.series.tel.panicked("operation", v, true)
	}
}

// admit counts the operation as admitted, once. The caller must hold tracker.mu. It is called for
// snapshots and at the end of the operation. Before that the operation may still be rejected.
func (tr *tracked) admit() {
	if !tr.admitted {
		tr.admitted = true
		tr.counts.Admitted++
	}
}

// watch cancels the operation when its context ends, if the cause is known.
func (tr *tracked) watch(ctx context.Context, x *exchange) {
	tr.ctx, tr.exchange = ctx, x
	tr.unwatch = context.AfterFunc(ctx, func() {
		if cancel := tr.causeOf(); cancel != nil {
			tr.op.Cancelled(cancel.Cause, cancel.Detail)
		}
	})
}

// causeOf returns why the context ended. It is nil if the context has not ended or the cause is not
// known.
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

// update calls change with tracker.mu held.
func (tr *tracked) update(change func()) {
	tr.tracker.mu.Lock()
	defer tr.tracker.mu.Unlock()
	change()
}

// cancel sets the cancellation, and returns the phase in which the operation was. first is false if
// there is one already or the operation has ended.
func (tr *tracked) cancel(cause mcp.Cause, detail string) (phase string, first bool) {
	after := tr.age()
	tr.update(func() {
		if first = tr.cancelled == nil && !tr.ended; first {
			phase = tr.cancelPhase()
			tr.cancelled, tr.cancelledAfter = &mcp.CancelError{Cause: cause, Detail: detail}, after
			tr.counts.Cancelled[state.CancelledIn{Cause: cause, Phase: phase}]++
		}
	})
	return phase, first
}

// cancelPhase returns in which phase the operation is. The caller must hold tracker.mu.
func (tr *tracked) cancelPhase() string {
	switch {
	case tr.queued:
		return phaseQueued
	case tr.acknowledged != 0:
		return report.StateListening
	}
	return phaseRunning
}

// drop marks the answer as dropped. It returns false if it was marked before.
func (tr *tracked) drop() (first bool) {
	tr.update(func() { first, tr.lost = !tr.lost, true })
	return first
}

// complete sets the fields that the outcome leaves out. It returns false if the operation has
// ended.
func (tr *tracked) complete(out *Outcome, last bool) bool {
	if cancel := tr.causeOf(); cancel != nil { // if the context ended just now
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

// leave removes the operation from the live set and counts its end.
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

// A trackedSession is a session of a server that is no [Source].
type trackedSession struct{ info Info }

// Describe implements [Origin].
func (s *trackedSession) Describe() Info { return s.info }

func (s *trackedSession) row(now time.Time) SessionState {
	return SessionState{Origin: s, Transport: s.info.Transport, Age: max(now.Sub(s.info.ArrivedAt), 0)}
}

// Bounds of the labels of refusals, which come from the program: the number of pairs of reason and
// refuser, and the size of each text in bytes.
const (
	maxRefusals    = 64
	maxRefusalText = 64
)

// refuse counts an error that is a refusal, and ignores all others. The caller must hold k.mu.
func (k *tracker) refuse(err *mcp.Error) {
	refusal, ok := mcp.AsRefusal(err)
	if !ok {
		return
	}
	reason, by := logline.Printable(refusal.Reason, maxRefusalText), logline.Printable(refusal.By, maxRefusalText)
	if _, known := k.own.Refused[reason][by]; !known {
		pairs := 0
		for _, refusers := range k.own.Refused {
			pairs += len(refusers)
		}
		if pairs >= maxRefusals {
			reason, by = other, other
		}
	}
	if k.own.Refused[reason] == nil {
		k.own.Refused[reason] = map[string]uint64{}
	}
	k.own.Refused[reason][by]++
}

// refused copies the counts. The caller must hold k.mu.
func (k *tracker) refused() map[string]map[string]uint64 {
	copied := make(map[string]map[string]uint64, len(k.own.Refused))
	for reason, refusers := range k.own.Refused {
		copied[reason] = maps.Clone(refusers)
	}
	return copied
}

// HTTP wraps the handler of an MCP endpoint, for other servers than ours. An operation that
// begins with the context of such a request has the client's address, the version of HTTP and
// the header, unless its [Info] has others. If the client goes away before next returns, the
// operation is cancelled with the cause client_disconnect. The server decides whether that also
// cancels the context of its handler.
func (t *Telemetry) HTTP(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		x := &exchange{request: req}
		defer x.over.Store(true)
		next.ServeHTTP(w, req.WithContext(context.WithValue(req.Context(), exchangeKey{}, x)))
	})
}

type exchangeKey struct{}

// An exchange is one request to an endpoint of [Telemetry.HTTP]. It may be nil: there is none.
type exchange struct {
	request *http.Request
	over    atomic.Bool // the handler has returned
}

func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// lost reports whether the client went away before the handler returned.
func (x *exchange) lost() bool {
	return x != nil && !x.over.Load() && x.request.Context().Err() != nil
}

// complete sets the fields that info leaves out.
func (x *exchange) complete(info *Info) {
	if x == nil {
		return
	}
	req := x.request
	network, version := "tcp", strconv.Itoa(req.ProtoMajor)
	switch req.ProtoMajor {
	case 1:
		version += "." + strconv.Itoa(req.ProtoMinor)
	case 3:
		network = "quic"
	}
	info.Transport, info.Network = cmp.Or(info.Transport, "http"), cmp.Or(info.Network, network)
	info.Protocol, info.ProtocolVersion = cmp.Or(info.Protocol, "http"), cmp.Or(info.ProtocolVersion, version)
	info.RemoteAddr = cmp.Or(info.RemoteAddr, req.RemoteAddr)
	info.SessionID = cmp.Or(info.SessionID, req.Header.Get("Mcp-Session-Id"))
	if info.Header == nil {
		info.Header = req.Header
	}
}
