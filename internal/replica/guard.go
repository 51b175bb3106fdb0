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
	// awayRepeats is after how long the log says again that the store is away.
	awayRepeats = time.Minute
)

// A guard makes the calls of a store: with a deadline, and none while the store does not answer. It is safe
// for concurrent use.
type guard struct {
	timeout time.Duration
	logger  *slog.Logger // names the store
	failed  func()       // called after each failure

	mu       sync.Mutex                   // guards the rest
	counts   map[string]map[string]uint64 // by operation and outcome
	took     map[string]time.Duration
	failures int // in a row
	pause    time.Duration
	openTo   time.Time // until then nothing is tried
	probing  bool      // one call tries
	away     time.Time // when the breaker opened; zero: it is closed
	logged   time.Time // when the log has said last that it is open
}

func newGuard(timeout time.Duration, logger *slog.Logger) *guard {
	g := &guard{timeout: timeout, logger: logger, failed: func() {}, counts: map[string]map[string]uint64{}, took: map[string]time.Duration{}}
	for _, op := range session.StoreOperations() {
		g.counts[op] = map[string]uint64{}
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
		g.counts[op][session.StoreSkipped]++
		return false, false
	}
	g.probing = true
	return true, true
}

// leave counts a call and works the breaker.
func (g *guard) leave(op string, probe bool, err error, took time.Duration) {
	g.mu.Lock()
	g.took[op] += took
	switch {
	case err == nil:
		g.counts[op][session.StoreOK]++
	case errors.Is(err, context.DeadlineExceeded):
		g.counts[op][session.StoreTimedOut]++
	default:
		g.counts[op][session.StoreFailed]++
	}
	if probe {
		g.probing = false
	}
	var lasted time.Duration
	var log bool // that the store is away
	now := time.Now()
	switch {
	case err == nil:
		if g.failures = 0; !g.away.IsZero() {
			lasted = max(now.Sub(g.away), 1)
			g.away, g.pause = time.Time{}, 0
		}
	case !g.away.IsZero():
		if probe {
			g.wait(now)
		}
		if log = now.Sub(g.logged) >= awayRepeats; log {
			g.logged, lasted = now, now.Sub(g.away)
		}
	default:
		if g.failures++; g.failures >= failuresToOpen {
			log, g.away, g.logged = true, now, now
			g.wait(now)
		}
	}
	g.mu.Unlock()
	switch {
	case log:
		g.logger.Warn("store.away", "operation", op, "error", err, "lasted", lasted.Round(time.Second))
	case lasted > 0:
		g.logger.Info("store.back", "lasted", lasted)
	}
	if err != nil {
		g.failed()
	}
}

// wait has nothing tried for a while, which differs between replicas. The caller must hold g.mu.
func (g *guard) wait(now time.Time) {
	g.pause = min(max(firstPause, 2*g.pause), longestPause)
	g.openTo = now.Add(jittered(g.pause))
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
	info.Away, info.Took = g.away, maps.Clone(g.took)
	info.Operations = map[string]map[string]uint64{}
	for op, counts := range g.counts {
		info.Operations[op] = maps.Clone(counts)
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
