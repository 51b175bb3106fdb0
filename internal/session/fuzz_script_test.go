package session

import (
	"context"
	"fmt"
	"log/slog"
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
