package session

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/store"
)

// Why a stream cannot be resumed.
var (
	// ErrEventUnknown: the session has no event with this id, the store has let go of it
	// or of what followed, or nothing will follow it.
	ErrEventUnknown = errors.New("mcp: there is no stream to be resumed from this event")
	// ErrStreamTaken: another exchange reads the stream.
	ErrStreamTaken = errors.New("mcp: another connection reads this stream")
)

// errEventsMissing ends an exchange that cannot go on without a gap.
var errEventsMissing = errors.New("session: the event store does not have what follows")

// A Reader is an exchange that goes on reading a stream whose earlier one was lost or
// closed: first what it has missed, then what comes. Get one from [Session.Resume].
// Pump and Close belong to one goroutine; Lost may be called from any.
type Reader struct {
	stream *Stream
	number int
	seq    uint64        // of the last event that the client has
	events []store.Event // that follow it, as far as they were read from the store
	end    uint64        // the last of them
	done   bool          // Pump has come to the stream's end, or the exchange was closed on purpose
}

// Resume finds the stream of an event and makes the caller's exchange its reader. The
// error matches [ErrEventUnknown], [ErrStreamTaken], or [mcp.ErrClosed] if the session
// has ended; any other one is the event store's. The reader must be closed.
func (s *Session) Resume(ctx context.Context, lastEventID string) (*Reader, error) {
	if s.events == nil {
		return nil, ErrEventUnknown
	}
	key, seq, ok := s.events.parse(lastEventID)
	if !ok {
		return nil, ErrEventUnknown
	}
	st, err := s.logged(key)
	if err != nil {
		return nil, err
	}
	r := &Reader{stream: st, seq: seq}
	if err := r.attach(); err != nil {
		return nil, err
	}
	if err := r.load(ctx); err != nil {
		st.lostBy(r.number)
		return nil, err
	}
	s.listen(st)
	s.core.ledger.count(func(t *tally) { t.resumed++ })
	s.core.logger.Debug("stream.resumed", "session", s.LogID(), "stream", key, "missed", len(r.events))
	return r, nil
}

// logged returns the stream with a key. One that has ended is in the store only, and
// gets a stand-in for as long as somebody reads it.
func (s *Session) logged(key string) (st *Stream, err error) {
	n, bad := strconv.Atoi(key)
	s.update(func(state *state) {
		switch {
		case state.phase != sessionOpen:
			err = mcp.ErrClosed
			return
		case bad != nil || n < 1 || n > state.streamSeq || strconv.Itoa(n) != key:
			err = ErrEventUnknown
			return
		}
		if st = state.streams[key]; st == nil {
			st = newStream(s.core, s.conn, legacyExchange, 0)
			st.session, st.ended, st.reader = s, true, 0
			st.log = &eventLog{
				key: key, prefix: s.events.prefix(key), last: true, replay: true,
				marks: state.peer.Version.AtLeast(mcp.Version20251125),
			}
			state.streams[key] = st
		}
	})
	return st, err
}

// attach makes the exchange the reader of its stream.
func (r *Reader) attach() error {
	st := r.stream
	st.mu.Lock()
	defer st.mu.Unlock()
	switch {
	case st.failed != "" || st.log == nil:
		return ErrEventUnknown
	case st.reader != 0:
		return ErrStreamTaken
	}
	st.readers++
	r.number, st.reader = st.readers, st.readers
	st.alone.Store(false)
	return nil
}

// load reads the events that the client has missed from the store, and finds out
// whether they are all there.
func (r *Reader) load(ctx context.Context) error {
	st := r.stream
	st.mu.Lock()
	log := st.log
	if log == nil {
		st.mu.Unlock()
		return ErrEventUnknown // the store has failed meanwhile
	}
	have, over, replay := log.seq, log.last, log.replay
	st.mu.Unlock()
	switch {
	case !replay && r.seq > have, !replay && r.seq == have && over:
		return ErrEventUnknown
	case !replay && r.seq == have:
		return nil
	}
	events, err := st.session.events.after(ctx, log.key, r.seq)
	if err != nil {
		return err
	}
	if !follow(events, r.seq) {
		return ErrEventUnknown
	}
	last := events[len(events)-1]
	switch {
	case !replay && last.Seq < have, replay && !last.Last:
		return ErrEventUnknown
	case replay && !slices.ContainsFunc(events, func(e store.Event) bool { return len(e.Data) > 0 }):
		return ErrEventUnknown // or the client would come again and again
	}
	r.events, r.end = events, last.Seq
	return nil
}

// follow reports whether there are events, and the first follows the one with number
// seq and each other one the one before it.
func follow(events []store.Event, seq uint64) bool {
	for _, e := range events {
		if seq++; e.Seq != seq {
			return false
		}
	}
	return len(events) > 0
}

// listen counts an exchange that keeps the session from being idle. On the session's
// own stream it takes the calls that have waited for one.
func (s *Session) listen(st *Stream) {
	var parked []*outbound
	s.update(func(state *state) {
		state.listeners++
		if state.standalone == st {
			parked = state.unpark(st)
		}
	})
	for _, o := range parked {
		st.push(o.message)
	}
}

// unpark sends the calls that wait for a stream to one.
func (st *state) unpark(to *Stream) (parked []*outbound) {
	parked, st.parked = st.parked, nil
	for _, o := range parked {
		o.stream = to
	}
	return parked
}

// hush ends what listen has begun.
func (s *Session) hush() {
	s.update(func(state *state) {
		if state.listeners--; state.listeners == 0 && len(state.live) == 0 {
			state.quietAt = time.Now()
		}
	})
}

// Pump writes what the client has missed to sink, and then goes on like [Stream.Pump].
// Nothing is lost, repeated or out of order between the two, or Pump ends with an error.
func (r *Reader) Pump(sink Sink) error {
	st := r.stream
	watch := st.watch(sink, r.number)
	watch.always()
	defer watch.end()
	if err := st.enter(r.number, sink); err != nil {
		return err
	}
	defer st.leave(r.number)
	err := r.replay(sink)
	if err == nil {
		err = st.serve(sink, &watch)
	}
	r.done = err == nil
	return err
}

// Lost tells the stream that this exchange is gone.
func (r *Reader) Lost() { r.stream.lostBy(r.number) }

// Close is the end of the exchange.
func (r *Reader) Close() {
	if !r.done {
		r.Lost()
	}
	r.stream.session.hush()
}

// replay writes the events that follow the client's last one. The exchange is the
// stream's writer, so that the log does not grow meanwhile.
func (r *Reader) replay(sink Sink) error {
	st := r.stream
	err := st.failure()
	if err == nil && st.log.marks {
		// Some clients know only the ids of their last connection.
		err = r.write(sink, []store.Event{{Seq: r.seq}}, true)
	}
	for err == nil && r.seq < r.target() {
		if len(r.events) == 0 {
			if err = r.more(); err != nil {
				break
			}
		}
		err = r.write(sink, r.events, false)
		r.events = nil
	}
	st.look(sink)
	if err != nil && !errors.Is(err, errEventsMissing) {
		st.lose(nil, false, err)
	}
	return err
}

// more reads the events that have come since the first look.
func (r *Reader) more() (err error) {
	st := r.stream
	r.events, err = st.session.events.after(context.Background(), st.log.key, r.seq)
	if err == nil && !follow(r.events, r.seq) {
		err = errors.New("the next event is gone")
	}
	if err != nil {
		st.core.logger.Debug("stream.gap", "session", st.session.LogID(), "stream", st.log.key, "error", err)
		err = errEventsMissing
	}
	return err
}

// target is the last event that was there when the exchange became the writer. A stream
// that is only read again gets none any more.
func (r *Reader) target() uint64 {
	if log := r.stream.log; !log.replay {
		return log.seq
	}
	return r.end
}

// write writes and flushes events. Those without data are for the log alone, unless
// they are what the client is to have.
func (r *Reader) write(sink Sink, events []store.Event, marks bool) error {
	st, n, begin := r.stream, 0, time.Now()
	for _, e := range events {
		m := &Message{Kind: Notification, Frame: e.Data, EventID: st.log.id(e.Seq)}
		if len(e.Data) == 0 {
			if m.Kind = Mark; !marks {
				continue
			}
		}
		if err := st.failure(); err != nil {
			return err
		}
		st.bound(sink, time.Now())
		if err := sink.Write(m); err != nil {
			return err
		}
		n += m.Size()
	}
	if err := sink.Flush(); err != nil {
		return err
	}
	st.written(n, begin)
	last := events[len(events)-1]
	if r.seq = last.Seq; last.Last {
		st.session.events.fetched(st.log.key)
	}
	return nil
}
