// Package session is the session core: it admits requests, bounds them, runs
// their handlers, decides each outcome exactly once, cancels with a cause, hands
// answers to the one writer of their stream, and accounts for every answer that
// was not sent. It knows no feature and no socket; transports feed it messages
// and give it sinks, and an [Observer] is told what happens.
//
// What happens to a request in each state, for each event, is the fault matrix
// of docs/session-core.md.
package session

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/rates"
	"github.com/vitrine-mcp/vitrine/internal/resume"
	"github.com/vitrine-mcp/vitrine/internal/seal"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Core is what all sessions of one server share. Its methods are safe for concurrent
// use.
type Core struct {
	dispatcher    Dispatcher
	observer      Observer
	logger        *slog.Logger
	limits        limits.Limits
	configured    limits.Limits // as they were set
	host          stream.Host
	store         *resume.Store                         // or nil
	authorize     func(*Request) error                  // or nil
	admission     func(context.Context, *Request) error // or nil
	authenticator auth.Authenticator                    // or nil
	rates         *rates.Limiter                        // or nil
	sharedRates   rates.Store                           // or nil: each process has its own buckets
	hooks         hooks
	unserved      eras
	ids           atomic.Pointer[seal.Ring] // that seals the ids of legacy HTTP sessions; nil: ids are random
	adopted       func(*Session)            // see [Core.SealSessions]
	elsewhere     Elsewhere                 // or nil: no other process serves these sessions
	stateChanged  func(*Session, SharedState)
	ownMessages   atomic.Uint64 // that were handed to other replicas

	ledger *ledger
	shares
	saturation          saturation
	subscriptionsEnding chan struct{} // closed when the drain begins: subscriptions end
	lines               logline.Limiter
	expired             expiredAnswers

	mu       sync.Mutex // guards the rest
	sessions map[*Session]struct{}
	byID     map[string]*Session  // legacy HTTP sessions by their Mcp-Session-Id
	awaited  map[string]*awaiting // sessions that are opened from their ids
	inner    map[string]*Session  // those with sealed ids by what is in them
	draining atomic.Bool          // written with mu held, read without it
	leaving  atomic.Bool          // see Leave
	closing  chan struct{}        // closed by Close: no more patience
	drained  chan struct{}        // closed when Shutdown is over
	result   error                // of Shutdown
	classes  []*Class             // see UseClass

	adopting sync.Mutex // held while a session is opened from its id; before mu
	deleted  deleted

	idling    idling
	alarms    alarms
	frames    frames
	clients   clients
	tasks     tasks // background work
	refused   refusedCounts
	decisions pairCounts // of rules and effects
}

// Limits returns the limits in force.
func (c *Core) Limits() limits.Limits { return c.limits }

// ConfiguredLimits returns the limits as they were set, without defaults.
func (c *Core) ConfiguredLimits() limits.Limits { return c.configured }

// Logger returns the core's logger.
func (c *Core) Logger() *slog.Logger { return c.logger }

// Series returns the labels under which the requests of a route are counted.
func (c *Core) Series(method, target string) *Series { return c.ledger.Series(method, target) }

// Draining reports whether Shutdown has begun.
func (c *Core) Draining() bool { return c.draining.Load() }

// Leave says that Shutdown comes soon: clients should connect elsewhere.
func (c *Core) Leave() { c.leaving.Store(true) }

// Leaving reports whether Leave was called or Shutdown has begun.
func (c *Core) Leaving() bool { return c.leaving.Load() || c.draining.Load() }

// LimitReached counts that a limit was reached which the core does not watch itself;
// name is one of [limits.Names].
func (c *Core) LimitReached(name string) { c.ledger.limitReached(name) }

// invariant reports a broken invariant: a bug of ours.
func (c *Core) invariant(s *Session, broken string) {
	c.logger.Error("invariant.broken", "session", s.LogID(), "invariant", broken)
}

// Go runs background work of the server, for which Shutdown waits. It must end soon, and by
// itself.
func (c *Core) Go(f func()) { c.tasks.start(f) }

// CountRefusal counts the refusal of what gets no answer, if an error is one.
func (c *Core) CountRefusal(err error) {
	if r, _ := mcp.AsRefusal(err); r != nil {
		c.refused.add(r)
	}
}

// countRefusal counts the refusal that an error stands for, if it does.
func (c *Core) countRefusal(err *mcp.Error) {
	if r, ok := mcp.AsRefusal(err); ok {
		c.refused.add(r)
	}
}

// UseClass has snapshots show a class. It must be called before the first request for it.
func (c *Core) UseClass(class *Class) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.classes, class) {
		c.classes = append(c.classes, class)
	}
}

// usedClasses returns a private copy of the classes.
func (c *Core) usedClasses() []*Class {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.classes)
}
