package session

import (
	"context"
	"log/slog"
	"runtime"
	"time"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/resume"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/store"
)

// Config is what a Core is made of. Dispatcher is required.
type Config struct {
	Dispatcher Dispatcher
	Observer   Observer     // default: none
	Logger     *slog.Logger // default: discard
	Limits     limits.Limits
	// Authenticator finds out who calls, see [Core.Authenticate]. Default: nobody does, and
	// all callers are one.
	Authenticator auth.Authenticator
	// Authorize is asked whether the caller of a request may do what it asks, before Admission.
	// It may store its decision ([Request.SetDecision]), and give the request another route ([Request.Reroute],
	// [Request.Hide]). An error refuses the request. Default: everybody may do everything.
	Authorize func(r *Request) error
	// Admission is asked whether a request may be admitted, before it takes a slot or a
	// place in a queue; an error refuses it, see [Core.askRules]. Default: everything may.
	Admission func(ctx context.Context, r *Request) error
	// Events keeps what legacy HTTP streams carry, so that they can be resumed. Default:
	// none, and a stream whose connection is lost is over.
	Events store.EventStore
}

// New returns a core that accepts requests at once.
func New(cfg Config) *Core {
	c := &Core{
		dispatcher:          cfg.Dispatcher,
		observer:            cfg.Observer,
		logger:              cfg.Logger,
		authorize:           cfg.Authorize,
		admission:           cfg.Admission,
		authenticator:       cfg.Authenticator,
		ledger:              newLedger(4 * runtime.GOMAXPROCS(0)),
		sessions:            map[*Session]struct{}{},
		byID:                map[string]*Session{},
		inner:               map[string]*Session{},
		closing:             make(chan struct{}),
		subscriptionsEnding: make(chan struct{}),
		drained:             make(chan struct{}),
	}
	if c.logger == nil {
		c.logger = slog.New(slog.DiscardHandler)
	}
	c.host = stream.Host{
		Logger: c.logger, LimitReached: c.ledger.limitReached, Go: c.tasks.start,
		Written: func(conn any, n int, took time.Duration) {
			c.tell("Written", func(o Observer) { o.Written(conn.(*Conn), n, took) })
		},
		BeforeWrite: func(m *stream.Message) {
			if a, ok := m.Delivery.(*answer); ok {
				c.hooks.at(pointBeforeWrite, (*Request)(a))
			}
		},
	}
	if cfg.Events != nil {
		c.store = &resume.Store{
			Events: cfg.Events, Logger: c.logger, LimitReached: c.ledger.limitReached, Go: c.tasks.start,
			Failed:  func(op resume.Operation) { c.ledger.count(func(t *tally) { t.eventFailures[op]++ }) },
			Fetched: func(n int) { c.ledger.count(func(t *tally) { t.ResponsesFetched += uint64(n) }) },
			Expired: c.answersExpired,
		}
	}
	c.SetLimits(cfg.Limits)
	return c
}

// SetLimits replaces the limits. It must be called before the first message.
func (c *Core) SetLimits(l limits.Limits) {
	c.configured, c.limits = l, l.WithDefaults()
	c.shares = newShares(&c.limits)
	c.output = c.newOutput()
	c.host.Limits, c.host.Output = c.limits, c.output
	if c.store != nil {
		c.store.Limits = c.limits
		if m := c.eventMemory(); m != nil {
			m.Bind(c.limits, c.ledger.limitReached)
		}
	}
	_ = c.SetRates(c.rates.Rules()) // they were valid before
}

// eventMemory returns the event store, if it is the one in memory, or nil.
func (c *Core) eventMemory() *resume.Memory {
	if c.store == nil {
		return nil
	}
	m, _ := c.store.Events.(*resume.Memory)
	return m
}
