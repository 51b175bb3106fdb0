package session

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A script runs a sequence of events against a core and keeps books of what each
// request may and must have met. Unlike a test of one cell it does not know the
// one right outcome, but which outcomes are allowed.
type script struct {
	*world
	NopObserver
	jitterSeed atomic.Uint64 // not zero: the yield points sleep
	sleeping   atomic.Int64  // goroutines in a yield point
	quiet      bool          // nothing runs: the effect of the next event can be foretold

	pipes []*farEnd
	https []*farEnd
	posts []*farPost

	fed           map[string]uint64 // messages by kind
	drain         *fuzzDrain        // once Shutdown was called
	serial        int
	closedAt      time.Time // when core.Close was called
	rejectedNotes uint64    // notifications that found no session

	mu        sync.Mutex // guards the rest
	faults    []string
	traces    map[*Request]*fuzzTrace
	order     []*fuzzTrace
	bySession map[*Session]*farEnd
	byStream  map[*stream.Stream]*farPost
	handlers  []*fuzzHandler
	opened    uint64 // sessions
	closed    uint64
	notified  uint64 // notifications that were handled
	tried     map[string]uint64
	notesSent map[string]uint64
	panics    uint64 // that handlers and marshalers had
	panicked  uint64 // that the core has noticed
	asking    map[*Session]int
	answered  uint64 // asks that ended with the client's answer
}

// A fuzzDrain is a call of Shutdown.
type fuzzDrain struct {
	began    time.Time
	deadline context.CancelFunc
	expired  time.Time
	done     chan struct{}
	err      error
}

// A fuzzTrace is the book of one request.
type fuzzTrace struct {
	r    *Request
	end  *farEnd
	post *farPost // nil on a byte stream

	rejected  mcp.RejectReason
	refused   bool
	cancels   []*mcp.CancelError
	drops     []mcp.DropReason
	started   int
	finished  int
	abandoned int
	written   int // answers
	sent      int
	frame     string
	returned  bool
	texts     []string // what the handler has returned
	judged    bool     // its fate was looked at
	unwanted  bool     // a cancel for its id was sent while it lived
	seen      *mcp.CancelError
}

func (tr *fuzzTrace) String() string {
	return fmt.Sprintf("request %s of tool %s", tr.r.ID.Raw(), tr.r.Name)
}

// scriptLimits are so low that each is reached now and then.
var scriptLimits = limits.Limits{
	MaxInFlight: 3, MaxInFlightTotal: 5, MaxQueue: 3, MaxQueuePerSession: 2, MaxUnread: 2, MaxSessions: 2, MaxOutbound: 2,
	MaxQueuedMessages: 3, MaxQueuedBytes: 1000, MaxConsecutiveMalformed: 4,
	RequestTimeout: 10 * time.Second, WriteTimeout: 3 * time.Second, AbandonGrace: 5 * time.Second,
	SessionIdle: 20 * time.Second, InitializeTimeout: 6 * time.Second,
}

// fuzzPause is how long a script waits for the effects of an event: longer than all
// jitter, shorter than all limits.
const fuzzPause = 5 * time.Millisecond

// runScript runs a script and returns what was wrong.
func runScript(t *testing.T, data []byte) (faults []string) {
	defer func() {
		if v := recover(); v != nil { // a goroutine that never ends
			faults = append(faults, fmt.Sprint("I6: ", v))
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		sc := newScript(t, data)
		for i := 2; i+2 < len(data) && i < 2+3*maxEvents && len(sc.faults) == 0; i += 3 {
			sc.event(data[i], data[i+1], data[i+2])
		}
		sc.finish(len(data) > 0 && data[0]&4 != 0)
		faults = sc.faults
	})
	return faults
}

// maxEvents bounds a script, so that the fuzzer tries many short ones.
const maxEvents = 120

// newScript makes the world of a script. Its first two bytes are options.
func newScript(t *testing.T, data []byte) *script {
	limits := scriptLimits
	sc := &script{
		world: newWorld(t, limits), fed: map[string]uint64{}, traces: map[*Request]*fuzzTrace{},
		bySession: map[*Session]*farEnd{}, byStream: map[*stream.Stream]*farPost{}, tried: map[string]uint64{},
		notesSent: map[string]uint64{}, asking: map[*Session]int{}, quiet: true,
	}
	if len(data) > 1 {
		if data[0]&1 != 0 {
			limits.OrphanGrace = 2 * time.Second
		}
		if data[0]&2 != 0 {
			sc.jitterSeed.Store(uint64(data[1])<<1 | 1)
		}
		if data[0]&8 != 0 {
			limits.EOFGrace = -1
		}
	}
	sc.core = New(Config{Dispatcher: sc, Observer: sc, Logger: slog.New(sc.log), Limits: limits})
	sc.core.hooks = func(point, *Request) { sc.jitter() }
	return sc
}

// jitter sleeps for a moment that depends on the script's seed, so that one
// script sees many schedules and the same one each time.
func (sc *script) jitter() {
	if sc.jitterSeed.Load() == 0 {
		return
	}
	z := sc.jitterSeed.Add(0x9e3779b97f4a7c15)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z ^= z >> 27
	if z%3 != 0 {
		sc.sleeping.Add(1)
		time.Sleep(time.Duration(z>>8%40) * time.Microsecond)
		sc.sleeping.Add(-1)
	}
}

func (sc *script) fault(format string, args ...any) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.faultLocked(format, args...)
}

func (sc *script) faultLocked(format string, args ...any) {
	sc.faults = append(sc.faults, fmt.Sprintf(format, args...))
}

// event runs one event and, unless it is in a rush, waits for its effects and
// checks the books.
func (sc *script) event(op, a, b byte) {
	ev := fuzzEvents[op&0x7f]
	ev.do(sc, a, b)
	if op&0x80 != 0 {
		sc.quiet = false
		time.Sleep(time.Duration(b%16) * 3 * time.Microsecond)
		return
	}
	sc.rest()
	n := len(sc.faults)
	sc.check()
	if len(sc.faults) > n {
		sc.fault("... after the event %s %d %d", ev.name, a, b)
	}
}

// rest waits until nothing moves without time or the script. A timer may have fired at
// its end, and what that has woken be in a yield point.
func (sc *script) rest() {
	time.Sleep(fuzzPause)
	for synctest.Wait(); sc.sleeping.Load() > 0; synctest.Wait() {
		time.Sleep(time.Microsecond)
	}
	sc.quiet = true
}

// Dispatcher.

// Route gives each tool its route.
func (sc *script) Route(in *Inbound, _ *Session) *Route {
	key := in.Method
	if in.HasName {
		key = in.Name
	}
	sc.world.mu.Lock()
	defer sc.world.mu.Unlock()
	if rt := sc.routes[key]; rt != nil {
		return rt
	}
	rt := &Route{Series: sc.core.Series(in.Method, in.Name), Handle: sc.serve}
	switch key {
	case "initialize":
		rt.Handshake, rt.BeforeInitialize = true, true
	case "ping":
		rt.BeforeInitialize = true
	case "brief":
		rt.Deadline = 2 * time.Second
	case "narrow":
		rt.Class = NewClass("narrow", 1)
	}
	sc.routes[key] = rt
	return rt
}

// Notify counts.
func (sc *script) Notify(_ context.Context, in *Inbound, _ *Session) {
	sc.mu.Lock()
	sc.notified++
	sc.mu.Unlock()
	if in.Method == "notifications/bomb" {
		panic("as scripted")
	}
}

// Observer.

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
func (sc *script) Cancelled(w Work, err *mcp.CancelError) {
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

// A fuzzHandler is one call of a handler, which does what the script says.
type fuzzHandler struct {
	sc   *script
	tr   *fuzzTrace
	ctx  context.Context
	r    *Request
	todo chan byte
	gone bool // guarded by script.mu
}

// serve is the handler of every tool. The tool's name is the handler's temper.
func (sc *script) serve(ctx context.Context, r *Request) (mcp.Result, error) {
	h := &fuzzHandler{sc: sc, ctx: ctx, r: r, todo: make(chan byte, 8)}
	sc.mu.Lock()
	h.tr = sc.traces[r]
	if h.tr.refused || h.tr.returned || h.tr.started != 1 {
		sc.faultLocked("a handler was called that must not be: %s", h.tr)
	}
	sc.handlers = append(sc.handlers, h)
	sc.mu.Unlock()
	defer h.leave()
	sc.jitter()
	if cmd, ok := tempers[r.Name]; ok {
		if done, result, err := h.obey(cmd); done {
			return result, err
		}
	}
	if r.Name == "" { // initialize, ping
		return h.result()
	}
	done := ctx.Done()
	if r.Name == "stubborn" {
		done = nil
	}
	for {
		select {
		case cmd := <-h.todo:
			if done, result, err := h.obey(cmd); done {
				return result, err
			}
		case <-done:
			return h.unwind()
		}
	}
}

// tempers are what some tools do before they wait for the script.
var tempers = map[string]byte{
	"instant": doReturn, "error": doError, "bomb": doPanic, "exit": doGoexit, "shrapnel": doShrapnel,
	"asker": doAsk, "talker": doBurst, "closer": doClose,
}

var fuzzTools = []string{
	"gate", "stubborn", "tidy", "chatty", "rude", "brief", "narrow", "asker", "talker",
	"gate", "instant", "error", "bomb", "exit", "shrapnel", "closer",
}

// unwind is what a handler does when it is cancelled.
func (h *fuzzHandler) unwind() (mcp.Result, error) {
	switch h.r.Name {
	case "tidy":
		return h.result()
	case "chatty":
		h.notify("")
		return h.result()
	case "rude":
		h.sc.panics1()
		panic("cancelled")
	}
	return nil, context.Cause(h.ctx)
}

// What the script can tell a handler to do.
const (
	doReturn byte = iota
	doNotify
	doAsk
	doError
	doPanic
	doGoexit
	doShrapnel
	doProtocolError
	doBurst
	doKeyed
	doAskBriefly
	doAskTwice
	doLeaveBehind
	doClose
	doAbort
	doNotifyAside
	numTodo
)

func (h *fuzzHandler) obey(cmd byte) (done bool, result mcp.Result, err error) {
	switch cmd % numTodo {
	case doReturn:
		result, err = h.result()
		return true, result, err
	case doError:
		return true, nil, errors.New("as scripted")
	case doProtocolError:
		return true, nil, mcp.NewError(mcp.CodeInvalidParams, "as scripted")
	case doPanic:
		h.sc.panics1()
		panic("as scripted")
	case doAbort:
		h.sc.panics1()
		panic(http.ErrAbortHandler)
	case doGoexit:
		h.sc.panics1()
		runtime.Goexit()
	case doShrapnel:
		return true, &shrapnel{sc: h.sc}, nil
	case doNotify:
		h.notify("")
	case doKeyed:
		h.notify("key")
	case doBurst:
		for i := range 6 {
			h.notify([]string{"", "key"}[i%2])
		}
	case doAsk:
		h.ask(h.ctx)
	case doAskBriefly:
		ctx, cancel := context.WithTimeoutCause(h.ctx, time.Second, errAskTimeout)
		h.ask(ctx)
		cancel()
	case doAskTwice:
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { h.ask(h.ctx) })
		}
		wg.Wait()
	case doLeaveBehind:
		go func() {
			<-h.ctx.Done()
			h.notify("")
			h.ask(context.Background())
		}()
	case doNotifyAside: // while the handler goes on, and perhaps returns
		for range 2 {
			go func() {
				for range 4 {
					h.notify("")
				}
			}()
		}
	case doClose:
		if h.r.session != nil && h.r.session.stream != nil {
			h.sc.mu.Lock()
			h.tr.end.closed = append(h.tr.end.closed, mcp.CauseServerShutdown)
			h.sc.mu.Unlock()
			h.r.session.Close(mcp.CauseServerShutdown)
		}
	}
	return false, nil, nil
}

var errAskTimeout = errors.New("asked for too long")

func (h *fuzzHandler) result() (mcp.Result, error) {
	h.sc.mu.Lock()
	defer h.sc.mu.Unlock()
	h.sc.serial++
	text := fmt.Sprintf("result-%d.", h.sc.serial)
	h.tr.texts = append(h.tr.texts, text)
	return &textResult{Text: text}, nil
}

// shrapnel is a result whose marshaler panics.
type shrapnel struct {
	sc *script
	mcp.ResultMeta
}

// MarshalJSON panics.
func (s *shrapnel) MarshalJSON() ([]byte, error) {
	s.sc.panics1()
	panic("shrapnel")
}

func (sc *script) panics1() {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.panics++
}

// leave checks what the handler has seen of its context.
func (h *fuzzHandler) leave() {
	h.sc.mu.Lock()
	defer h.sc.mu.Unlock()
	h.gone, h.tr.returned = true, true
	cause := context.Cause(h.ctx)
	if cause == nil {
		return
	}
	seen, _ := h.r.Cancellation()
	if seen == nil || cause != error(seen) {
		h.sc.faultLocked("I3: the cause of %s is %v, not %v", h.tr, cause, seen)
		return
	}
	if errors.Is(h.ctx.Err(), context.DeadlineExceeded) != (seen.Cause == mcp.CauseDeadline) {
		h.sc.faultLocked("I3: Err of %s is %v", h.tr, h.ctx.Err())
	}
}

// notify sends a notification and keeps the books of it.
func (h *fuzzHandler) notify(key string) {
	suppressed := h.r.verdict.outcome() != open
	h.sc.mu.Lock()
	h.sc.tried[mcp.NotificationProgress]++
	h.sc.mu.Unlock()
	began := time.Now()
	err := h.r.Notify(mcp.NotificationProgress, []byte(`{"progressToken":1,"progress":1}`), key)
	if took := time.Since(began); took > h.sc.core.limits.NotifyTimeout+fuzzPause {
		h.sc.fault("I12: a notification took %v", took)
	}
	if suppressed && !errors.Is(err, mcp.ErrRequestDone) {
		h.sc.fault("E18: a send of a settled request returned %v", err)
	}
}

// ask asks the client and checks how that ends.
func (h *fuzzHandler) ask(ctx context.Context) {
	s := h.r.session
	settled := h.r.verdict.outcome() != open
	h.sc.mu.Lock()
	h.sc.asking[s]++
	h.sc.mu.Unlock()
	result, err := h.r.Ask(ctx, "ping", nil)
	h.sc.mu.Lock()
	defer h.sc.mu.Unlock()
	h.sc.asking[s]--
	var refused *mcp.ClientError
	var cancelled *mcp.CancelError
	switch {
	case settled:
		if err == nil || errors.As(err, &refused) {
			h.sc.faultLocked("a settled request was answered by its client")
		}
	case h.r.Era == mcp.Modern:
		if !errors.Is(err, mcp.ErrNoBackChannel) {
			h.sc.faultLocked("B: a modern request was answered: %v", err)
		}
	case err == nil, errors.As(err, &refused):
		h.sc.answered++
		text := string(result)
		if refused != nil {
			text = refused.Message
		}
		if used, known := h.tr.end.told[text]; !known || used {
			h.sc.faultLocked("E17: %s got the client's answer %q, which was not for it", h.tr, text)
		}
		h.tr.end.told[text] = true
	case errors.As(err, &cancelled), errors.Is(err, errAskTimeout), errors.Is(err, mcp.ErrClosed),
		errors.Is(err, mcp.ErrPeerGone), errors.Is(err, mcp.ErrRequestDone):
	default:
		var overloaded *mcp.Error
		if !errors.As(err, &overloaded) {
			h.sc.faultLocked("B: an ask of %s ended with %v", h.tr, err)
		}
	}
}
