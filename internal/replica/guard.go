package replica

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/store"
)

// errAway says that the store was not asked, because it did not answer before.
var errAway = errors.New("the store is away")

const (
	// failuresToOpen is after how many failures in a row the breaker opens.
	failuresToOpen = 5
	// firstPause and longestPause bound how long the breaker is open before it lets one call try. The
	// pause doubles.
	firstPause, longestPause = 500 * time.Millisecond, 10 * time.Second
	// logRepeats is after how long the log says again that the store is away, or that an operation fails.
	logRepeats = time.Minute
	// failingAgain is after how long without one a failure of an operation begins to count anew.
	failingAgain = 10 * time.Minute
)

// A guard makes the calls of a store: with a deadline, and none while the store does not answer. It is safe
// for concurrent use.
type guard struct {
	timeout time.Duration
	logger  *slog.Logger // names the store
	// failed is called after each failure. refused: it was a write, which the store has refused, and so nothing of others was
	// missed.
	failed func(refused bool)

	mu       sync.Mutex        // guards the rest
	calls    map[string]*calls // by operation
	failures int               // in a row
	answered time.Time         // the last time that the store has done so
	pause    time.Duration
	openTo   time.Time // until then nothing is tried
	probing  bool      // one call tries
	away     time.Time // when the breaker opened; zero: it is closed
	logged   time.Time // when the log has said last that it is open
}

// calls are what a guard knows of the calls of one operation.
type calls struct {
	outcomes map[string]uint64
	took     time.Duration
	failures int       // in a row, while the breaker is closed
	first    time.Time // of these
	latest   time.Time
	logged   time.Time // when the log has said last that they fail
}

// noteFailure counts a failure. It reports whether the log shall say now that this operation fails while the store
// answers, the last time at a time: a store that is full or denies a right does not count as away. A failure long after
// the one before is the first one again.
func (c *calls) noteFailure(now, answered time.Time) (log bool) {
	if c.failures++; c.failures == 1 || now.Sub(c.latest) > failingAgain {
		c.failures, c.first = 1, now
	}
	c.latest = now
	log = c.failures >= failuresToOpen && answered.After(c.first) && now.Sub(c.logged) >= logRepeats
	if log {
		c.logged = now
	}
	return log
}

func newGuard(timeout time.Duration, logger *slog.Logger) *guard {
	g := &guard{timeout: timeout, logger: logger, failed: func(bool) {}, calls: map[string]*calls{}}
	for _, op := range session.StoreOperations() {
		g.calls[op] = &calls{outcomes: map[string]uint64{}}
	}
	return g
}

// errPanicked is the error of a call that has panicked.
var errPanicked = errors.New("the store has panicked")

// do makes a call. notFailed is an error that says nothing about the store. A call that ends with its
// caller says nothing either.
func (g *guard) do(ctx context.Context, op string, notFailed error, call func(context.Context) error) (err error) {
	probe, ok := g.enter(op)
	if !ok {
		return errAway
	}
	bounded, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	began := time.Now()
	err = errPanicked
	defer func() {
		said := ctx.Err() == nil && (err == nil || notFailed == nil || !errors.Is(err, notFailed))
		switch {
		case said:
			g.leave(op, probe, err, time.Since(began))
		case ctx.Err() != nil:
			g.abandon(probe)
		default:
			g.leave(op, probe, nil, time.Since(began))
		}
	}()
	return call(bounded)
}

// abandon ends a call that has said nothing about the store.
func (g *guard) abandon(probe bool) {
	if probe {
		g.mu.Lock()
		g.probing = false
		g.mu.Unlock()
	}
}

// enter reports whether a call may be made, and whether it is the one that tries.
func (g *guard) enter(op string) (probe, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.away.IsZero():
		return false, true
	case g.probing || time.Now().Before(g.openTo):
		g.calls[op].outcomes[session.StoreSkipped]++
		return false, false
	}
	g.probing = true
	return true, true
}

// leave counts a call and works the breaker.
func (g *guard) leave(op string, probe bool, err error, took time.Duration) {
	g.mu.Lock()
	now, of, refused := time.Now(), g.calls[op], errors.Is(err, store.ErrRefused)
	of.took += took
	switch {
	case err == nil:
		of.outcomes[session.StoreOK]++
	case refused:
		of.outcomes[session.StoreRefused]++
	case errors.Is(err, context.DeadlineExceeded):
		of.outcomes[session.StoreTimedOut]++
	default:
		of.outcomes[session.StoreFailed]++
	}
	away, lasted := g.work(now, probe, err == nil || refused)
	failing := false
	switch {
	case err == nil:
		of.failures, g.answered = 0, now
	case refused:
		g.answered = now
		fallthrough
	case g.away.IsZero(): // an outage says nothing of one operation
		failing = of.noteFailure(now, g.answered)
	}
	failures, since := of.failures, now.Sub(of.first)
	g.mu.Unlock()
	switch {
	case away:
		g.logger.Warn("store.away", "operation", op, "error", err, "lasted", lasted.Round(time.Second))
	case lasted > 0:
		g.logger.Info("store.back", "lasted", lasted)
	case failing:
		g.logger.Warn("store.failing", "operation", op, "error", err, "failures", failures, "lasted", since.Round(time.Second))
	}
	if err != nil {
		g.failed(refused && op != session.StoreGet && op != session.StoreTaskGet)
	}
}

// work works the breaker after a call, which the store has answered or not. It reports whether the log shall say that the
// store is away, or, if lasted is not 0, that it is back, and for how long it was away. The caller must hold g.mu.
func (g *guard) work(now time.Time, probe, answered bool) (away bool, lasted time.Duration) {
	if probe {
		g.probing = false
	}
	switch {
	case answered:
		if g.failures = 0; !g.away.IsZero() {
			lasted = max(now.Sub(g.away), 1)
			g.away, g.pause = time.Time{}, 0
		}
	case !g.away.IsZero():
		if probe {
			g.wait(now)
		}
		if away = now.Sub(g.logged) >= logRepeats; away {
			g.logged, lasted = now, now.Sub(g.away)
		}
	default:
		if g.failures++; g.failures >= failuresToOpen {
			away, g.away, g.logged = true, now, now
			g.wait(now)
			for _, c := range g.calls {
				c.failures = 0
			}
		}
	}
	return away, lasted
}

// wait has nothing tried for a while, which differs between replicas. The caller must hold g.mu.
func (g *guard) wait(now time.Time) {
	g.pause = min(max(firstPause, 2*g.pause), longestPause)
	g.openTo = now.Add(jittered(g.pause))
}

// probeLook is after how long to look again whether a call that tries has come back.
const probeLook = 50 * time.Millisecond

// opensIn returns after what time a call may be made, and 0 if that is now. Another call may be the first that tries then.
func (g *guard) opensIn() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.away.IsZero():
		return 0
	case g.probing:
		return probeLook
	}
	return max(0, time.Until(g.openTo))
}

// isAway reports whether the store does not answer.
func (g *guard) isAway() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.away.IsZero()
}

// jittered returns between half of a pause and all of it, so that replicas do not try at the same moment.
func jittered(pause time.Duration) time.Duration {
	var random [8]byte
	_, _ = rand.Read(random[:]) // it never fails
	half := pause / 2
	return half + time.Duration(binary.LittleEndian.Uint64(random[:])%uint64(half))
}

// awaySince returns since when the store is away, or the zero time.
func (g *guard) awaySince() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.away
}

// describe adds what the guard has counted.
func (g *guard) describe(info *session.StoreInfo) {
	g.mu.Lock()
	defer g.mu.Unlock()
	info.Away, info.Took = g.away, map[string]time.Duration{}
	info.Operations = map[string]map[string]uint64{}
	for op, of := range g.calls {
		info.Operations[op], info.Took[op] = maps.Clone(of.outcomes), of.took
	}
}

// values are the values of a store behind a guard.
type values struct {
	store.Values
	*guard
	operations
}

// The names by which operations are counted.
type operations struct{ get, claim, update string }

var plainOperations = operations{session.StoreGet, session.StoreClaim, session.StoreUpdate}

// Get implements [store.Values].
func (v values) Get(ctx context.Context, key string) (value []byte, err error) {
	err = v.do(ctx, v.get, store.ErrNoValue, func(ctx context.Context) (err error) {
		value, err = v.Values.Get(ctx, key)
		return err
	})
	return value, err
}

// Claim implements [store.Values].
func (v values) Claim(ctx context.Context, key string, value []byte, life time.Duration) (claimed bool, err error) {
	err = v.do(ctx, v.claim, nil, func(ctx context.Context) (err error) {
		claimed, err = v.Values.Claim(ctx, key, value, life)
		return err
	})
	return claimed, err
}

// errChange is matched by the errors of the functions that change a value.
var errChange = errors.New("the change")

// Update implements [store.Values].
func (v values) Update(ctx context.Context, key string, change func([]byte) ([]byte, time.Duration, error)) error {
	var own error // of change
	err := v.do(ctx, v.update, errChange, func(ctx context.Context) error {
		return v.Values.Update(ctx, key, func(old []byte) ([]byte, time.Duration, error) {
			value, life, err := change(old)
			if own = err; err != nil {
				return nil, 0, errors.Join(errChange, err)
			}
			return value, life, nil
		})
	})
	if own != nil && errors.Is(err, errChange) {
		return own
	}
	return err
}
