// Package replica connects a server with the other replicas that serve its sessions, over a
// [store.Store]. It carries what must cross replicas and nothing else: a plain call needs no store.
package replica

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/share"
	"github.com/vitrine-mcp/vitrine/store"
)

// Config is what a Link is made of.
type Config struct {
	Store  store.Store
	Core   *session.Core
	Logger *slog.Logger
	// Version is that of the program.
	Version string
	// Timeout bounds each call of the store.
	Timeout time.Duration
	// MaxPending bounds the signals that are on their way.
	MaxPending int
	// LimitReached counts that it did.
	LimitReached func()
	// Changed takes a change that another replica has published.
	Changed func(Change)
	// TasksChanged takes the ids of tasks that another replica has changed; all says that any may have.
	TasksChanged func(ids []string, all bool)
	// Missed is called when changes of others may have been lost, and when the link begins to listen.
	Missed func()
}

// A Link is the connection. Its methods are safe for concurrent use.
type Link struct {
	Config
	name    string
	started time.Time
	rolls   rolls
	guard   *guard
	values  values
	table   *share.Table
	places  *share.Pool // of signals on their way
	repeats *share.Pool // of those that are published again

	sent, received, unknown, lost, missed, fenced atomic.Uint64
	listening                                     atomic.Bool // it has begun to
	evicts                                        atomic.Bool // the store may delete values before their end
	gap                                           atomic.Bool // this replica may have missed something of others

	outbox   outbox
	tasks    taskOutbox
	receipts receipts
	recovery recovery
	done     context.Context
	cancel   context.CancelFunc

	mu      sync.Mutex // guards the rest
	closed  bool
	running sync.WaitGroup
}

// The channels that all replicas listen to, and the prefix of those of one.
const (
	sessionsChannel = "sessions"
	changesChannel  = "changes"
	tasksChannel    = "tasks"
	replicaChannel  = "replica/"
)

// format is the version of envelopes and values. Others are left alone: replicas of two releases run at
// the same time while one replaces the other.
const format = 1

// An envelope is one message. It has one of the last six.
type envelope struct {
	Format int    `json:"v"`
	From   string `json:"from"`
	// Receipt is the name of the receipt that the sender wants, or "".
	Receipt string          `json:"receipt,omitempty"`
	Signal  *session.Signal `json:"signal,omitempty"`
	State   *stateSignal    `json:"state,omitempty"`
	Change  *Change         `json:"change,omitempty"`
	Tasks   *taskSignal     `json:"tasks,omitempty"`
	Roll    *rollSignal     `json:"roll,omitempty"`
	// Receipts are those of messages that have arrived.
	Receipts []string `json:"receipts,omitempty"`
}

// A stateSignal tells that what the replicas share of a session has changed.
type stateSignal struct {
	Session string              `json:"session"`
	Ends    time.Time           `json:"ends"`
	State   session.SharedState `json:"state"`
}

// New returns a link that listens until Close.
func New(cfg Config) *Link {
	l := &Link{Config: cfg, name: strings.ToLower(rand.Text()[:8]), started: time.Now(), table: share.NewTable(), places: share.NewPool(cfg.MaxPending), repeats: share.NewPool(max(1, cfg.MaxPending/repeatShare))}
	logger := cfg.Logger
	if cfg.Store.Name != "" {
		logger = logger.With("store", cfg.Store.Name)
	}
	l.guard = newGuard(cfg.Timeout, logger)
	l.guard.failed = func(refused bool) {
		if !refused {
			l.gap.Store(true)
		}
		l.recover()
	}
	l.values = values{cfg.Store.Values, l.guard, plainOperations}
	l.done, l.cancel = context.WithCancel(context.Background())
	l.start(l.listen)
	return l
}

// start runs work for which Close waits, unless the link is closed.
func (l *Link) start(work func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.running.Go(work)
	}
	return !l.closed
}

// Close ends the link. It waits until what was taken is published, but not longer than for about three calls of the store: what is
// left then is published as one signal.
func (l *Link) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cancel()
	until := time.Now().Add(l.Timeout)
	l.outbox.close(until)
	l.tasks.close(until)
	l.running.Wait()
}

// Replica implements [session.Elsewhere].
func (l *Link) Replica() string { return l.name }

// Values returns the values of the store, with the link's deadline and breaker.
func (l *Link) Values() store.Values { return l.values }

// Connected reports whether the store answers, and the link listens to the other replicas.
func (l *Link) Connected() bool { return l.listening.Load() && !l.guard.isAway() }

// Info describes the link.
func (l *Link) Info() *session.StoreInfo {
	info := &session.StoreInfo{Replica: l.name, Missed: l.missed.Load(), Fenced: l.fenced.Load(), Evicts: l.evicts.Load(), Signals: map[string]uint64{
		session.SignalSent: l.sent.Load(), session.SignalReceived: l.received.Load(),
		session.SignalUnknown: l.unknown.Load(), session.SignalLost: l.lost.Load(),
	}, Replicas: l.Replicas}
	l.guard.describe(info)
	return info
}

// listen begins to listen, and tries until it can.
func (l *Link) listen() {
	channels := []string{sessionsChannel, changesChannel, tasksChannel, replicaChannel + l.name}
	for pause, first := firstPause, true; ; pause, first = min(2*pause, longestPause), false {
		err := l.guard.do(l.done, session.StoreListen, nil, func(context.Context) error {
			return l.Store.Signals.Listen(l.done, channels, l.receive, func() {
				l.hadGap()
			})
		})
		if err == nil {
			l.listening.Store(true)
			switch { // this replica has not heard what was sent before
			case !first:
				l.hadGap()
			case len(l.Core.SharedSessions()) > 0:
				l.catchUpSoon()
			default: // there is nothing to read in the store
				l.Missed()
				l.check()
			}
			return
		}
		if !l.await(pause) {
			return
		}
	}
}

// hadGap notes that signals were missed.
func (l *Link) hadGap() {
	l.missed.Add(1)
	l.catchUpSoon()
}

// catchUpSoon starts a recovery that also reads what others have changed.
func (l *Link) catchUpSoon() {
	l.gap.Store(true)
	l.recover()
}

// Send implements [session.Elsewhere].
func (l *Link) Send(caller share.Key, m session.Signal) bool {
	if isConfirmed(m) {
		return l.launch(l.places, caller, sizeOf(m), func() { l.sendConfirmed(caller, m) })
	}
	return l.publish(caller, channelOf(m), envelope{Signal: &m}, sizeOf(m))
}

// Deliver implements [session.Elsewhere].
func (l *Link) Deliver(caller share.Key, m session.Signal) (sent, tried bool) {
	if l.guard.isAway() {
		l.lost.Add(1)
		return false, false
	}
	done := make(chan error, 1)
	ctx := context.WithoutCancel(l.done)
	tried = l.launch(l.places, caller, sizeOf(m), func() { done <- l.say(ctx, channelOf(m), envelope{Signal: &m}) })
	if !tried {
		return false, false
	}
	err := <-done
	return err == nil, !errors.Is(err, errAway) && !errors.Is(err, store.ErrRefused)
}

// channelOf returns the channel of a signal.
func channelOf(m session.Signal) string {
	if m.To != "" {
		return replicaChannel + m.To
	}
	return sessionsChannel
}

// sizeOf returns about how many bytes a signal has.
func sizeOf(m session.Signal) int {
	size := len(m.Reason)
	if m.Answer != nil {
		size += len(m.Answer.Result) + len(m.Answer.Error)
	}
	if m.Own != nil {
		size += len(m.Own.Frame)
	}
	return size
}

// signalUnit is how many bytes of a signal count as one of those that are on their way.
const signalUnit = 16 << 10

// publish sends a message without waiting, and reports whether it is on its way. size is about how many bytes it has.
func (l *Link) publish(caller share.Key, channel string, e envelope, size int) bool {
	if l.guard.isAway() {
		l.lost.Add(1)
		return false
	}
	return l.launch(l.places, caller, size, func() {
		_ = l.say(context.WithoutCancel(l.done), channel, e) // say counts what is lost
	})
}

// launch runs what sends a message of about a size, with places of a pool, and reports whether that runs. Too many of one
// caller do not keep those of others from theirs.
func (l *Link) launch(pool *share.Pool, caller share.Key, size int, send func()) bool {
	holder := l.table.Get(caller)
	units := 1 + size/signalUnit
	if units > pool.Usage().Size || !pool.TryAcquireN(holder, units) {
		l.LimitReached()
		holder.Release()
		l.lost.Add(1)
		return false
	}
	end := func() {
		pool.ReleaseN(holder, units)
		holder.Release()
	}
	started := l.start(func() {
		defer end()
		send()
	})
	if !started {
		l.lost.Add(1)
		end()
	}
	return started
}

// say publishes a message and counts what becomes of it.
func (l *Link) say(ctx context.Context, channel string, e envelope) error {
	message, err := l.seal(e)
	if err == nil {
		err = l.try(ctx, channel, message)
	}
	return l.counted(channel, err)
}

// seal returns an envelope as a message of this replica.
func (l *Link) seal(e envelope) ([]byte, error) {
	e.Format, e.From = format, l.name
	return json.Marshal(e)
}

// try publishes a message. The error is [store.ErrNoReceiver] if nobody listens.
func (l *Link) try(ctx context.Context, channel string, message []byte) error {
	return l.guard.do(ctx, session.StorePublish, store.ErrNoReceiver, func(ctx context.Context) error {
		return l.Store.Signals.Publish(ctx, channel, message)
	})
}

// counted counts what has become of a message. One for a replica that does not listen is lost, but that is no error:
// the store has taken it.
func (l *Link) counted(channel string, err error) error {
	unheard := errors.Is(err, store.ErrNoReceiver)
	if err == nil || unheard && !strings.HasPrefix(channel, replicaChannel) {
		l.sent.Add(1)
		return nil
	}
	l.lost.Add(1)
	l.Logger.Debug("signal.lost", "channel", channel, "error", err)
	if unheard {
		return nil
	}
	return err
}

// receive takes a message of another replica.
func (l *Link) receive(_ string, message []byte) {
	var e envelope
	if json.Unmarshal(message, &e) != nil || e.Format != format {
		l.unknown.Add(1)
		return
	}
	if e.From == l.name {
		return
	}
	if len(e.Receipts) > 0 {
		l.receipts.arrived(e.Receipts)
		return
	}
	if e.Receipt != "" {
		l.acknowledge(e.From, e.Receipt)
	}
	known := true
	switch {
	case e.Signal != nil:
		known = l.Core.Arrived(*e.Signal)
	case e.State != nil:
		if l.Core.StateArrived(e.State.Session, e.State.Ends, e.State.State) {
			l.start(func() { l.Core.RestoreState(l.done, e.State.Session) })
		}
	case e.Change != nil:
		l.Changed(*e.Change)
	case e.Tasks != nil:
		l.TasksChanged(e.Tasks.IDs, e.Tasks.All)
	case e.Roll != nil:
		known = l.rollCalled(e.From, e.Roll)
	}
	if known {
		l.received.Add(1)
	} else {
		l.unknown.Add(1)
	}
}
