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
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/resume"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/store"
)

// A Core is what all sessions of one server share. Its methods may be called from
// any goroutine.
type Core struct {
	dispatcher    Dispatcher
	observer      Observer
	logger        *slog.Logger
	limits        limits.Limits
	host          stream.Host
	store         *resume.Store                         // or nil
	admission     func(context.Context, *Request) error // or nil
	authenticator auth.Authenticator                    // or nil
	hooks         hooks

	ledger  *ledger
	slots   *semaphore.Weighted
	bodies  *semaphore.Weighted // bytes of HTTP bodies that are being read
	waiting waitingRoom
	// subscriptions bounds the requests whose route is one for subscriptions.
	subscriptions waitingRoom
	running       waitingRoom   // bounds the detached work
	parting       chan struct{} // closed when the drain begins: subscriptions end
	lines         logline.Limiter

	mu       sync.Mutex // guards the rest
	sessions map[*Session]struct{}
	byID     map[string]*Session // legacy HTTP sessions
	draining atomic.Bool         // stored under mu; who only wants to know reads it without
	closing  chan struct{}       // closed by Close: no more patience
	drained  chan struct{}       // closed when Shutdown is over
	result   error               // of Shutdown

	_      [64]byte     // keeps what each modern exchange changes off the other fields' cache lines
	unread atomic.Int64 // modern exchanges whose answer has no fate yet
	_      [64]byte

	timers  timers
	frames  frames
	tasks   tasks // background work
	refused refusedCounts
}

// Config is what a Core is made of. Dispatcher is required.
type Config struct {
	Dispatcher Dispatcher
	Observer   Observer     // default: none
	Logger     *slog.Logger // default: discard
	Limits     limits.Limits
	// Authenticator finds out who calls, see [Core.Authenticate]. Default: nobody does, and
	// all callers are one.
	Authenticator auth.Authenticator
	// Admission is asked whether a request may be admitted, before it takes a slot or a
	// place in a queue; an error refuses it, see [Core.askAdmission]. Default: everything may.
	Admission func(ctx context.Context, r *Request) error
	// Events keeps what legacy HTTP streams carry, so that they can be resumed. Default:
	// none, and a stream whose connection is lost is over.
	Events store.EventStore
}

// New returns a core that accepts requests at once.
func New(cfg Config) *Core {
	c := &Core{
		dispatcher:    cfg.Dispatcher,
		observer:      cfg.Observer,
		logger:        cfg.Logger,
		admission:     cfg.Admission,
		authenticator: cfg.Authenticator,
		ledger:        newLedger(4 * runtime.GOMAXPROCS(0)),
		sessions:      map[*Session]struct{}{},
		byID:          map[string]*Session{},
		closing:       make(chan struct{}),
		parting:       make(chan struct{}),
		drained:       make(chan struct{}),
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
			Expired: c.answersExpired,
		}
	}
	c.SetLimits(cfg.Limits)
	return c
}

// answersExpired counts stored answers that nobody has fetched. They stay "stored" in
// the books: the fate of an answer is decided once.
func (c *Core) answersExpired(n int) {
	c.ledger.count(func(t *tally) { t.expired += uint64(n) })
	c.logger.Debug("response.expired", "reason", mcp.DropStreamGone, "responses", n)
}

// SetLimits replaces the limits. It must be called before the first message.
func (c *Core) SetLimits(l limits.Limits) {
	c.limits = l.WithDefaults()
	c.slots = semaphore.NewWeighted(int64(c.limits.MaxInFlightTotal))
	c.bodies = semaphore.NewWeighted(int64(c.limits.MaxBodyBytesPending))
	c.waiting.size = int64(c.limits.MaxQueue)
	c.host.Limits = c.limits
	if c.store != nil {
		c.store.Limits = c.limits
		if m, ok := c.store.Events.(*resume.Memory); ok {
			m.Bind(c.limits, c.ledger.limitReached)
		}
	}
	c.subscriptions.size = int64(c.limits.MaxSubscriptions)
	c.running.size = int64(c.limits.MaxRunningTasks)
}

// Limits returns the limits in force.
func (c *Core) Limits() limits.Limits { return c.limits }

// Logger returns the core's logger.
func (c *Core) Logger() *slog.Logger { return c.logger }

// Series returns the labels under which the requests of a route are counted.
func (c *Core) Series(method, target string) *Series { return c.ledger.Series(method, target) }

// Draining reports whether Shutdown has begun.
func (c *Core) Draining() bool { return c.draining.Load() }

// Connect opens the session of a byte stream and starts its writer.
func (c *Core) Connect(conn *Conn, sink stream.Sink) *Session {
	s := newSession(c, conn, "")
	s.stream, s.parting = stream.New(&c.host, c.streamConfig(conn, 0, stream.LossFails)), make(chan struct{})
	c.mu.Lock()
	draining := c.draining.Load()
	c.sessions[s] = struct{}{}
	c.mu.Unlock()
	c.tell("SessionOpened", func(o Observer) { o.SessionOpened(s) })
	c.tasks.start(func() { s.pump(sink) })
	if draining {
		s.Close(mcp.CauseServerShutdown)
	}
	return s
}

// forgetSession makes a session unknown to new requests.
func (c *Core) forgetSession(s *Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.byID, s.id)
}

// sessionClosed is the end of a session's teardown.
func (c *Core) sessionClosed(s *Session, cause mcp.Cause) {
	c.mu.Lock()
	delete(c.sessions, s)
	c.mu.Unlock()
	c.ledger.sessionClosed(cause)
	c.tell("SessionClosed", func(o Observer) { o.SessionClosed(s, cause) })
	total, abandoned := 0, 0
	s.update(func(st *state) { total, abandoned = st.total, len(st.abandoned) })
	c.logger.Info("session.closed", "session", s.LogID(), "cause", cause, "age", time.Since(s.opened),
		"requests", total, "cut", s.cut.Load(), "abandoned", abandoned)
}

// Exchange returns the stream of one HTTP exchange, which ends when it has carried
// the given number of answers; 0 is a stream without an end. A modern exchange has
// no session; its loss cancels its requests.
func (c *Core) Exchange(conn *Conn, answers int, era mcp.Era) *stream.Stream {
	loss := stream.LossDrops
	if era == mcp.Modern {
		loss = stream.LossCancels
	}
	return stream.New(&c.host, c.streamConfig(conn, answers, loss))
}

// streamConfig says what a stream is for.
func (c *Core) streamConfig(conn *Conn, answers int, loss stream.Loss) stream.Config {
	return stream.Config{
		Answers: answers, Loss: loss, Resumable: c.store != nil && loss == stream.LossDrops,
		Conn: conn, Transport: conn.Transport, Remote: conn.RemoteAddr,
	}
}

// Receive takes the one request of a modern HTTP exchange.
func (c *Core) Receive(in *Inbound, st *stream.Stream) { c.admit(in, nil, st) }

// Notify takes a notification that no session receives.
func (c *Core) Notify(in *Inbound) {
	if in.Method == mcp.NotificationCancelled {
		c.ledger.ignored(receivedNotification, mcp.IgnoredCancel, mcp.IgnoreWrongTransport)
		c.logger.Debug("cancel.ignored", "reason", mcp.IgnoreWrongTransport)
		_, end := c.tellNotified(in, nil)
		end()
		return
	}
	c.notify(in, nil)
}

// IgnoreResponse counts a response that reached no session.
func (c *Core) IgnoreResponse(reason mcp.IgnoreReason) {
	c.ledger.ignored(receivedResponse, mcp.IgnoredResponse, reason)
}

// RejectUnadmitted counts a message that was refused before a session could
// receive it. The transport answers it.
func (c *Core) RejectUnadmitted(in *Inbound, reason mcp.RejectReason, err *mcp.Error) {
	switch in.Kind {
	case wire.Request:
		r := newRequest(c, in, nil, nil, c.dispatcher.Route(in, nil))
		c.ledger.rejected(receivedRequest, reason)
		c.tell("Rejected", func(o Observer) { o.Rejected(r, reason, err) })
		r.cancel(nil)
	case wire.Notification:
		c.ledger.rejected(receivedNotification, reason)
		_, end := c.tellNotified(in, nil)
		end()
	case wire.Response:
		c.ledger.ignored(receivedResponse, mcp.IgnoredResponse, mcp.IgnoreWrongSession)
	}
}

// LimitReached counts that a limit was reached which the core does not watch itself;
// name is one of [limits.Names].
func (c *Core) LimitReached(name string) { c.ledger.limitReached(name) }

// DropNotification counts a notification that belongs to no request and is sent to nobody.
func (c *Core) DropNotification(method string, reason mcp.DropReason) {
	c.dropNotification(nil, method, reason)
}

// RefuseExchange counts and logs an HTTP exchange that was refused before it carried a
// message: it has no part in the conservation of messages.
func (c *Core) RefuseExchange(ctx context.Context, reason mcp.RefuseReason, attrs ...slog.Attr) {
	c.ledger.exchangesRefused(reason)
	switch reason {
	case mcp.RefuseBodyTimeout:
		c.ledger.limitReached(limits.NameBodyTimeout)
	case mcp.RefuseOverload:
		c.ledger.limitReached(limits.NameBodyBytes)
	}
	level, silenced := slog.LevelDebug, slog.Int("silenced", 0)
	if reason == mcp.RefuseHost || reason == mcp.RefuseOrigin { // a setting may be wrong
		level, silenced = c.senderLevel("http.refused", string(reason))
	}
	c.logger.LogAttrs(ctx, level, "http.refused", append(attrs, slog.Any("reason", reason), silenced)...)
}

// ReserveBody sets n bytes aside for a body that is being read, and reports
// whether they could be had.
func (c *Core) ReserveBody(n int) bool { return c.bodies.TryAcquire(int64(n)) }

// ReleaseBody gives back what ReserveBody has set aside.
func (c *Core) ReleaseBody(n int) { c.bodies.Release(int64(n)) }

// BodyOverload is the error for a body that ReserveBody has no room for.
func BodyOverload() *mcp.Error { return overload(limits.NameBodyBytes) }

// Overload is the error for what a limit has no room for.
func Overload(limit string) *mcp.Error { return overload(limit) }

// ShuttingDown is the error for a request that the drain has left without an answer.
func ShuttingDown() *mcp.Error { return shuttingDown() }

// notify has a notification handled, in the order of arrival. The handler has a
// goroutine of its own, so that neither its panic nor its runtime.Goexit is the
// reader's.
func (c *Core) notify(in *Inbound, s *Session) {
	c.ledger.received(receivedNotification)
	handled := make(chan struct{})
	go func() {
		defer close(handled)
		normal := false
		defer func() {
			if v := recover(); !normal {
				c.logger.Error("notification.panic", "method", in.Method, "panic", v, "stack", string(debug.Stack()))
			}
		}()
		ctx, end := c.tellNotified(in, s)
		defer end()
		c.dispatcher.Notify(ctx, in, s)
		normal = true
	}()
	<-handled
}

// invariant reports a broken invariant: a bug of ours.
func (c *Core) invariant(s *Session, broken string) {
	c.logger.Error("invariant.broken", "session", s.LogID(), "invariant", broken)
}

// Malformed counts a frame that is no message and, if it is to be answered,
// queues the answer on st. nullID is for clients whose revision wants an id of null
// where none could be read. The attributes say in the log who has sent it.
func (c *Core) Malformed(err *wire.Error, st *stream.Stream, nullID bool, sender ...slog.Attr) {
	if reason, answer := c.countMalformed(err, sender...); answer {
		st.RejectFrame(malformedAnswer(err, reason, nullID))
	}
}

// countMalformed counts a frame that is no message. It returns the reason if it
// counts as rejected, and whether it may be answered.
func (c *Core) countMalformed(err *wire.Error, sender ...slog.Attr) (reject mcp.RejectReason, answer bool) {
	c.logMalformed(err.Reason, err.Message, sender)
	if err.Kind == wire.Response {
		c.ledger.ignored(receivedResponse, mcp.IgnoredResponse, mcp.IgnoreMalformed)
		return "", false
	}
	switch err.Reason {
	case wire.ReasonParseError:
		reject = mcp.RejectParseError
	case wire.ReasonTooLarge:
		reject = mcp.RejectTooLarge
		c.ledger.limitReached(limits.NameFrameBytes)
	case wire.ReasonTooDeep:
		c.ledger.ignored(receivedInvalid, mcp.IgnoredFrame, mcp.IgnoreTooDeep)
		c.ledger.limitReached(limits.NameDepth)
	case wire.ReasonInvalidUTF8:
		c.ledger.ignored(receivedInvalid, mcp.IgnoredFrame, mcp.IgnoreInvalidUTF8)
	case wire.ReasonBatch:
		c.ledger.ignored(receivedInvalid, mcp.IgnoredFrame, mcp.IgnoreBatch)
	case wire.ReasonBatchTooLarge:
		c.ledger.ignored(receivedInvalid, mcp.IgnoredFrame, mcp.IgnoreBatch)
		c.ledger.limitReached(limits.NameBatch)
	default:
		c.ledger.ignored(receivedInvalid, mcp.IgnoredFrame, mcp.IgnoreNotJSONRPC)
	}
	if reject != "" {
		c.ledger.rejected(receivedInvalid, reject)
	}
	return reject, err.Kind != wire.Notification
}

// malformedAnswer answers a frame that is no message, see Malformed.
func malformedAnswer(err *wire.Error, reject mcp.RejectReason, nullID bool) *stream.Message {
	rpc := err.RPC()
	if err.Reason == wire.ReasonBatchTooLarge {
		rpc = rpc.WithData(mcp.ErrorData{Limit: limits.NameBatch})
	}
	m := &stream.Message{Kind: stream.Answer, Frame: wire.AppendError(nil, err.ID, rpc), Err: rpc, Reject: reject, Delivery: stream.Unobserved}
	if err.ID.IsZero() {
		m.Frame = anonymousError(rpc, nullID)
	}
	return m
}
