package session

import (
	"strconv"
	"strings"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/store"
)

// This file is the event stream that outlives its exchange. A legacy HTTP response
// that becomes an event stream gets a log: every event has an id and is in the event
// store before it is written. When the exchange is lost, the stream goes on without
// one, and what it carries goes to the store alone, until a client comes for it
// (see [Reader]) or the stream has ended.
//
// A stream has one writer at any time, and only the writer adds to the log: the
// goroutine of an exchange, or, while there is none, one that works off the queue
// and ends (keep). So nothing comes between what was replayed and what follows.

// Who the writer of a stream is: the number of an exchange, or one of these.
const (
	noWriter    = 0
	firstReader = 1 // the exchange that the stream was made for
	keeper      = -1
)

// An eventLog is what makes a stream resumable. Its writer alone changes it, and holds
// the stream's lock for that.
type eventLog struct {
	key    string // the stream's name in the store
	prefix string // of its event ids
	marks  bool   // the client's revision knows events without data
	seq    uint64 // of the last event
	last   bool   // which says that none follows
	// replay tells that the stream has ended before, and is there to be read again.
	replay bool
}

func (l *eventLog) id(seq uint64) string { return l.prefix + strconv.FormatUint(seq, 10) }

// newLog enters a stream into the table of those that can be resumed. It returns nil if
// the client's revision knows nothing of that, or, with marks set, nothing of events
// without data.
func (s *Session) newLog(st *Stream, marks bool) (log *eventLog) {
	least := mcp.Version20250326
	if marks {
		least = mcp.Version20251125
	}
	s.update(func(state *state) {
		if state.phase != sessionOpen || state.peer == nil || !state.peer.Version.AtLeast(least) {
			return
		}
		state.streamSeq++
		key := strconv.Itoa(state.streamSeq)
		log = &eventLog{
			key: key, prefix: s.events.prefix(key), marks: state.peer.Version.AtLeast(mcp.Version20251125),
		}
		if state.streams == nil {
			state.streams = map[string]*Stream{}
		}
		state.streams[key] = st
	})
	return log
}

// forgetLog takes a stream that is over out of the table, unless somebody has come to
// read it meanwhile. What the store has of it stays there.
func (s *Session) forgetLog(key string, st *Stream) {
	s.update(func(state *state) {
		if state.streams[key] == st && !(st.logged() && st.live()) {
			delete(state.streams, key)
		}
	})
}

// An event id is a part of the session's name in the store, the stream's key and the
// event's number, so that the id of one session means nothing in another.
func (e *sessionEvents) prefix(stream string) string { return e.name[:10] + "-" + stream + "-" }

// parse takes an event id of this session apart; false if it is none.
func (e *sessionEvents) parse(id string) (stream string, seq uint64, ok bool) {
	i := strings.LastIndexByte(id, '-')
	seq, err := strconv.ParseUint(id[i+1:], 10, 64)
	if _, stream, _ = strings.Cut(id[:max(i, 0)], "-"); err != nil {
		return "", 0, false
	}
	return stream, seq, id == e.prefix(stream)+strconv.FormatUint(seq, 10)
}

// mayLog reports whether the stream is of a kind that can have a log. Only the writer
// asks.
func (st *Stream) mayLog() bool {
	return st.core.events != nil && !st.unlogged && !st.plain && (st.kind == legacyExchange || st.kind == standaloneStream)
}

// begin gives the stream a log, if its client can resume it. An event stream of a
// revision that knows events without data begins with one, so that the client has an
// id; with primed set, nothing but that is wanted. Only the writer calls it.
func (st *Stream) begin(sink Sink, primed bool) error {
	st.mu.Lock()
	s := st.session
	st.mu.Unlock()
	if s == nil {
		return nil // of a handshake, or of nothing that was admitted
	}
	log := s.newLog(st, primed)
	st.mu.Lock()
	st.unlogged = log == nil && !primed
	lost := st.failed != ""
	if !lost {
		st.log = log
	}
	st.mu.Unlock()
	switch {
	case log == nil:
		return nil
	case lost:
		s.forgetLog(log.key, st)
		return nil
	}
	mark := &Message{Kind: Mark}
	if !log.marks || !st.record(mark, false) {
		return nil
	}
	return sink.Write(mark)
}

// prime begins an event stream that has nothing to say yet.
func (st *Stream) prime(sink Sink) error {
	if !st.mayLog() || st.log != nil {
		return nil
	}
	if err := st.begin(sink, true); err != nil || st.log == nil {
		return err
	}
	return sink.Flush()
}

// record adds a message to the log and to the event store; false if the stream has no
// log, or not any more because the store has failed. Only the writer calls it.
func (st *Stream) record(m *Message, last bool) bool {
	log := st.log
	if log == nil {
		return false
	}
	m.shown = true
	err := st.session.events.append(store.Event{Stream: log.key, Seq: log.seq + 1, Data: m.whole(), Last: last})
	if err != nil {
		st.giveUpLog()
		return false
	}
	st.mu.Lock()
	log.seq++
	log.last = last
	st.mu.Unlock()
	m.EventID, m.logged = log.id(log.seq), true
	return true
}

// giveUpLog makes the stream one that cannot be resumed, as an event is missing. If no
// exchange reads it, that is its end.
func (st *Stream) giveUpLog() {
	st.mu.Lock()
	log := st.log
	st.log, st.unlogged, st.events = nil, true, true
	alone := st.reader != st.writer
	st.mu.Unlock()
	st.alone.Store(false)
	st.session.forgetLog(log.key, st)
	if alone {
		st.Fail(mcp.DropStreamGone)
	}
}

// live reports whether an exchange reads the stream.
func (st *Stream) live() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.failed == "" && (st.log == nil || st.reader != 0)
}

// logged reports whether the stream has a log.
func (st *Stream) logged() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.log != nil
}

// unread reports whether the stream has a log and nothing of it is on its way to a
// client for the first time.
func (st *Stream) unread() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.log != nil && (st.reader == 0 || st.log.replay)
}

// detach takes the exchange with a number away from the stream; false if the stream has
// failed, or another exchange reads it. What it carries goes to the store from now on.
// It wants st.mu.
func (st *Stream) detach(reader int) bool {
	if st.failed != "" || st.reader != reader {
		return false
	}
	st.leaveReader()
	if st.sink != nil && st.writing {
		st.sink.SetWriteDeadline(time.Now()) // nobody reads what it writes
	}
	return true
}

// leaveReader notes that no exchange reads the stream. It wants st.mu.
func (st *Stream) leaveReader() {
	st.reader = 0
	st.alone.Store(true)
	grace := st.core.limits.OrphanGrace
	if grace == 0 || len(st.requests) == 0 {
		return // until their deadline
	}
	readers, requests := st.readers, st.requests
	time.AfterFunc(grace, func() {
		st.mu.Lock()
		back := st.readers != readers
		st.mu.Unlock()
		if back {
			return
		}
		for _, r := range requests {
			r.disconnect(mcp.DropStreamGone)
		}
		st.Fail(mcp.DropStreamGone)
	})
}

// keepUp is the writer of a stream that nobody reads, if it has something to do and
// no other one. It runs on a goroutine of its own.
func (st *Stream) keepUp() {
	st.mu.Lock()
	start := st.log != nil && st.failed == "" && st.reader == 0 && st.writer == noWriter
	if start {
		st.writer = keeper
	}
	st.mu.Unlock()
	if start {
		st.keep()
	}
}

// keep works off the queue of a stream that nobody reads. A stream that ends without
// an answer gets a mark that says so.
func (st *Stream) keep() {
	defer st.leave(keeper)
	var batch []*Message
	for {
		var done bool
		st.mu.Lock()
		if st.failed != "" || st.reader != 0 || len(st.queue) == 0 && (!st.ended || st.log.last) {
			st.mu.Unlock()
			return
		}
		batch, done = st.grab(batch[:0], len(st.queue))
		st.mu.Unlock()
		if len(batch) == 0 {
			st.record(&Message{Kind: Mark}, true)
		}
		for i, m := range batch {
			st.keepMessage(m, done && i == len(batch)-1)
		}
	}
}

// enter waits until nobody else is the stream's writer and makes an exchange that.
func (st *Stream) enter(reader int, sink Sink) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	for st.writer != noWriter {
		if st.vacant == nil {
			st.vacant = make(chan struct{})
		}
		vacant := st.vacant
		st.mu.Unlock()
		<-vacant
		st.mu.Lock()
	}
	if st.reader != reader { // lost while it waited
		return sendError(mcp.DropStreamGone)
	}
	st.writer, st.sink = reader, sink
	return nil
}

// leave is the end of a writer. What is in the queue of a stream with a log waits for
// nobody; a stream that has ended is taken out of the table.
func (st *Stream) leave(writer int) {
	st.mu.Lock()
	st.sink, st.writer = nil, noWriter
	log, vacant := st.log, st.vacant
	st.vacant = nil
	over := false
	if log != nil && st.failed == "" && (st.reader == 0 || st.reader == writer) {
		if over = st.ended && len(st.queue) == 0 && log.last; over {
			st.reader = 0
		} else if st.reader == writer {
			st.leaveReader()
		}
	}
	again := !over && st.alone.Load() && (st.ended || len(st.queue) > 0)
	st.mu.Unlock()
	if vacant != nil {
		close(vacant)
	}
	if over {
		st.session.forgetLog(log.key, st)
	}
	if again {
		st.signal()
	}
}

// closeExchange ends the exchange that is the writer, as a mark has asked for; false
// if the stream could then not be resumed.
func (st *Stream) closeExchange(m *Message) bool {
	if !m.logged {
		m.hang(errNotResumable)
		return false
	}
	st.mu.Lock()
	if st.failed == "" && st.reader == st.writer {
		st.leaveReader()
	}
	st.mu.Unlock()
	st.core.logger.Debug("stream.closed", "session", st.session.LogID(), "stream", st.log.key, "retry", m.Retry)
	m.hang(nil)
	return true
}

// keepMessage stores one message. A call of the session's own waits for a client
// instead: nobody knows whether one comes back for this stream, or opens another.
func (st *Stream) keepMessage(m *Message, last bool) {
	switch {
	case m.logged:
		m.kept(st.core)
	case m.hungUp != nil:
		m.hang(nil) // nobody reads the stream any more
	case m.call != nil && st.kind == standaloneStream:
		m.drop(st.core, mcp.DropStreamGone)
	case !m.claim():
		m.drop(st.core, mcp.DropCancelled)
	default:
		if m.Kind == Answer {
			st.core.hooks.at(pointBeforeWrite, m.request)
		}
		if st.record(m, last) {
			m.kept(st.core)
		} else {
			m.drop(st.core, st.reason())
		}
	}
}
