package stream

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Stream carries messages to the peer in order: a byte stream for its whole
// life, an HTTP exchange for one answer and what belongs to it. Anybody may
// queue messages; only the goroutine in [Stream.Pump] touches the wire. Its methods are safe
// for concurrent use, unless they say otherwise.
type Stream struct {
	host *Host
	cfg  Config
	wake chan struct{} // capacity 1: the writer has something to look at
	form form
	// single is true for an exchange that has one answer.
	single bool
	// quick is true as long as the one answer may come any moment: see QuickAnswer.
	quick atomic.Bool
	// alone is true while there is a log and no reader: what is queued needs a writer.
	alone atomic.Bool

	debt debt // guarded by the output

	mu sync.Mutex // guards the rest
	queue
	phase     phase
	failed    mcp.DropReason // why the stream has failed
	wire      wire
	exchanges exchanges
	logging   logging
	owners    []Owner // those whom the loss of the stream concerns
	lost      bool    // Lost was called, and there was nothing to resume
	moved     func()  // see WatchReaders
	relaying  bool    // a message was handed over, see Relay
	cutOff    bool    // the budget of the output is used up, and this stream gives back what it holds

	// The usual exchange has one request and one answer: room for them.
	queued [1]*Message
	owned  [1]Owner
	writes [1]*Message
}

// A Config says what a stream is for.
type Config struct {
	// Answers is how many answers the stream carries before it ends by itself; 0 is a stream
	// without an end.
	Answers int
	Loss    Loss
	// Resumable tells that the stream may get a log, see [Stream.Own].
	Resumable bool

	Conn              any    // what [Host.Written] is told
	Transport, Remote string // of the connection, for the log
}

// A Loss is what the loss of the peer does.
type Loss uint8

const (
	LossFails   Loss = iota // the stream fails; all that it belongs to ends with it
	LossCancels             // its owners are disconnected: no answer can reach them
	LossDrops               // its owners go on; what it carries is dropped, or stored
)

// An Owner learns when a stream is lost, such as the request that the stream answers.
type Owner interface {
	// Disconnect is called when the stream was lost, and its owner shall not go on.
	Disconnect(reason mcp.DropReason)
	// Orphan has over called after the grace, unless the owner has ended by then. It may be
	// called with the lock of the stream held.
	Orphan(grace time.Duration, over func())
}

// A form is what the client accepts.
type form uint8

const (
	anyForm     form = iota // JSON, or an event stream
	answersOnly             // no event stream: nothing but answers
	eventsOnly              // an event stream, from the first message on
)

// A phase is how far a stream is from its end. It only grows.
type phase uint8

const (
	flowing phase = iota
	ending        // it ends when the answers that it owes were queued
	ended         // nothing is queued any more; the rest is still written
	failed        // nothing is written any more
)

// firstReader is the number of the exchange that a stream was made for.
const firstReader = 1

// New returns a stream that is to be written by [Stream.Pump].
func New(host *Host, cfg Config) *Stream {
	st := &Stream{host: host, cfg: cfg, wake: host.wakes.get(), single: cfg.Answers == 1}
	st.exchanges.reader, st.exchanges.readers = firstReader, firstReader
	st.expected, st.messages, st.owners = cfg.Answers, st.queued[:0], st.owned[:0]
	return st
}

// NewStored returns a stream that has ended and is in a store only, so that an exchange can
// read it again.
func NewStored(host *Host, cfg Config, log Log) *Stream {
	st := New(host, cfg)
	st.exchanges.reader, st.phase, st.logging.log = noReader, ended, log
	return st
}

// endless streams do not end with an answer.
func (st *Stream) endless() bool { return st.cfg.Answers == 0 }

// Single reports whether the stream has one answer.
func (st *Stream) Single() bool { return st.single }

// Standing reports whether the stream is one that a client has opened for what belongs to no
// request.
func (st *Stream) Standing() bool { return st.endless() && st.cfg.Loss == LossDrops }

// AnswersOnly makes the stream one for a client that takes no event stream. It must be
// called before the stream has an owner.
func (st *Stream) AnswersOnly() { st.form = answersOnly }

// EventsOnly makes the stream one whose exchange is an event stream even if the first
// message is an answer. It must be called before [Stream.Pump].
func (st *Stream) EventsOnly() { st.form = eventsOnly }

// TakesAnswersOnly reports whether the client takes no event stream.
func (st *Stream) TakesAnswersOnly() bool { return st.form == answersOnly }

// signal tells the writer that there is something to look at. It may be called with
// st.mu held.
func (st *Stream) signal() {
	select {
	case st.wake <- struct{}{}:
	default:
	}
	if st.alone.Load() {
		st.host.Go(st.startStoring)
	}
}

// Reason returns why the stream has failed, or "".
func (st *Stream) Reason() mcp.DropReason {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.failed
}

// closedReason returns why nothing is queued any more, or "". The caller must hold st.mu.
func (st *Stream) closedReason() mcp.DropReason {
	if st.phase == ended {
		return mcp.DropClosedWriter
	}
	return st.failed
}

// Fail ends the stream at once: what is queued is dropped for this reason, and so
// is what comes later. The first reason stays.
func (st *Stream) Fail(reason mcp.DropReason) {
	st.mu.Lock()
	if st.phase == failed {
		st.mu.Unlock()
		return
	}
	if st.cutOff {
		reason = mcp.DropOverload // whoever tells it first
	}
	st.phase, st.failed = failed, reason
	dropped := st.empty()
	log := st.logging.log
	st.alone.Store(false)
	st.readersMoved()
	st.mu.Unlock()
	if log != nil {
		log.Forget()
	}
	st.signal()
	for _, m := range dropped {
		m.dropped(reason)
	}
}

// Finish lets the writer finish what is queued; nothing more is taken.
func (st *Stream) Finish() {
	st.mu.Lock()
	st.enter(ended)
	st.mu.Unlock()
	st.signal()
}

// Skip tells the stream that one of the answers which it waits for will not come. An
// endless stream waits for none.
func (st *Stream) Skip() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.skip()
}

// skip is Skip for callers that hold st.mu.
func (st *Stream) skip() {
	if st.endless() {
		return
	}
	st.expected--
	if st.expected <= 0 {
		st.enter(ended)
	}
	st.signal()
}

// enter enters a later phase. The caller must hold st.mu.
func (st *Stream) enter(p phase) { st.phase = max(st.phase, p) }

// wire is the sink of the exchange that is the writer. It is guarded by Stream.mu.
type wire struct {
	sink    Sink // nil while no exchange writes
	writing bool // the sink is in use
	events  bool // it has become an event stream
	late    bool // the deadline of a write had passed when its exchange was lost
	// deadline is that of the last write, end the upper bound of every write, zero for none.
	deadline, end time.Time
	limited       Sink // at which deadline is in force; nil if there is none, or another one
}

// exchanges tells which exchange reads a stream, and who writes it. A stream has one writer at
// any time, and only the writer adds to its log: the goroutine of an exchange, or, while there
// is none, one that works off the queue into the log and ends. So nothing comes between what
// was replayed and what follows. All is guarded by Stream.mu; the writer may read writer
// without it.
type exchanges struct {
	reader  int           // the number of the exchange that reads the stream, or noReader
	readers int           // how many exchanges there have been
	writer  int           // noWriter, storer, or the number of an exchange
	free    chan struct{} // closed when there is no writer; nil while nobody waits
	closing bool          // a mark in the queue ends the exchange
	until   time.Time     // the bound of the writes of an exchange that reads the stream no more
	// failed is the number of the exchange that was lost last because of a failure, and failure which that was.
	failed  int
	failure mcp.DropReason
	// followed tells that another process reads the stream from its log.
	followed bool
}

const (
	noReader = 0
	noWriter = 0
	storer   = -1
)

// logging is how a stream gets its log, and what has become of that. The fields are guarded
// by Stream.mu; the writer, which alone changes log and never, may read them without it.
type logging struct {
	opener Opener // or nil: of a handshake, or of nothing that was admitted
	log    Log    // nil before it was opened, and after it was given up
	never  bool   // it has no log and will have none
}

// detached reports whether the exchange that is the writer does not read the stream any
// more. The caller must hold st.mu.
func (st *Stream) detached() bool {
	return st.logging.log != nil && st.exchanges.reader != st.exchanges.writer
}

// stopped is why the exchange that is the writer writes nothing any more, or "". The caller
// must hold st.mu.
func (st *Stream) stopped() mcp.DropReason {
	if st.failed == "" && st.detached() {
		return mcp.DropStreamGone
	}
	return st.failed
}

// failure is why the writer must not write.
func (st *Stream) failure() error {
	st.mu.Lock()
	reason := st.stopped()
	st.mu.Unlock()
	if reason != "" {
		return &WriteError{Reason: reason, Err: SendError(reason)}
	}
	return nil
}

// Live reports whether an exchange reads the stream.
func (st *Stream) Live() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.phase != failed && (st.logging.log == nil || st.exchanges.reader != noReader)
}

// Read reports whether an exchange reads the stream, here or in another process.
func (st *Stream) Read() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.read()
}

// read is Read. The caller must hold st.mu.
func (st *Stream) read() bool {
	return st.phase != failed && (st.logging.log == nil || st.exchanges.reader != noReader || st.exchanges.followed)
}

// WatchReaders has moved called when the stream may have got its first reader or lost its last one, and when it
// fails. moved must not block. It is called with the lock of the stream held.
func (st *Stream) WatchReaders(moved func()) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.moved = moved
}

// readersMoved calls what watches the readers. The caller must hold st.mu.
func (st *Stream) readersMoved() {
	if st.moved != nil {
		st.moved()
	}
}

// Unread reports whether the stream has a log, and no exchange reads it.
func (st *Stream) Unread() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.logging.log != nil && st.exchanges.reader == noReader
}

// Log returns the log of the stream, or nil.
func (st *Stream) Log() Log {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.logging.log
}
