package stream

import (
	"errors"
	"fmt"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// This file is about streams that can be resumed. Such a stream has a log: each of its
// events has an id and is added to the log before it is written. When the exchange is lost,
// the stream goes on without one, and what it carries goes to the log alone, until a client
// comes for it (see [Stream.Attach]) or the stream has ended.

// A Log keeps the events of one stream. The stream's writer alone calls Append; the other
// methods must be safe for concurrent use.
type Log interface {
	// Append adds an event and returns its id. last says that none follows. Without data the
	// event is a mark. After an error the stream has no log any more.
	Append(data []byte, last bool) (id string, err error)
	// Marks reports whether the client knows events without data.
	Marks() bool
	// Complete reports whether no event follows those that are there.
	Complete() bool
	// Forget is called when the stream is over, or cannot be resumed any more.
	Forget()
	// LogAttrs returns the fields by which log lines name the stream.
	LogAttrs() []any
}

// An Opener opens the logs of the streams of one session. It must be safe for concurrent use.
type Opener interface {
	// Open returns the log of a stream, or nil if its client cannot resume it. If primed is
	// set, the client must know events without data.
	Open(st *Stream, primed bool) Log
	// Resumes reports whether the client can resume streams at all.
	Resumes() bool
}

// ErrNotResumable is the error of [Stream.CloseExchange].
var ErrNotResumable = fmt.Errorf("mcp: the response to this request cannot be closed before its end: %w", errors.ErrUnsupported)

// logging is how a stream gets its log, and what has become of that. The fields are guarded
// by Stream.mu; the writer, which alone changes log and never, may read them without it.
type logging struct {
	opener Opener // or nil: of a handshake, or of nothing that was admitted
	log    Log    // nil before it was opened, and after it was given up
	never  bool   // it has no log and will have none
}

// Log returns the log of the stream, or nil.
func (st *Stream) Log() Log {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.logging.log
}

// EndsWithoutAnswer reports whether the sink has become an event stream that cannot be
// resumed: it can end without an answer.
func (st *Stream) EndsWithoutAnswer() bool {
	st.mu.Lock()
	events := st.wire.events && st.logging.log == nil
	opener, never := st.logging.opener, st.logging.never
	st.mu.Unlock()
	if !events || never || opener == nil {
		return events
	}
	return !opener.Resumes()
}

// mayLog reports whether the stream is of a kind that can have a log. Only the writer may
// call it.
func (st *Stream) mayLog() bool {
	return st.cfg.Resumable && !st.logging.never && st.form != answersOnly
}

// beginFor gives the stream a log before a message is written that makes the exchange an event
// stream, and reports whether there is a log, or was asked for. Only the writer may call it.
func (st *Stream) beginFor(sink Sink, m *Message) (asked bool, err error) {
	switch {
	case st.logging.log != nil:
		return true, nil
	case (m.Kind != Answer || st.wire.events || st.form == eventsOnly) && st.mayLog():
		return true, st.begin(sink, false)
	}
	return false, nil
}

// begin gives the stream a log, if its client can resume it. An event stream of a
// revision that knows events without data begins with one, so that the client has an
// id; with primed set, nothing but that is wanted. Only the writer may call it.
func (st *Stream) begin(sink Sink, primed bool) error {
	st.mu.Lock()
	opener := st.logging.opener
	st.mu.Unlock()
	if opener == nil {
		return nil
	}
	log := opener.Open(st, primed)
	st.mu.Lock()
	st.logging.never = log == nil && !primed
	lost := st.phase == failed
	if !lost {
		st.logging.log = log
	}
	st.mu.Unlock()
	switch {
	case log == nil:
		return nil
	case lost:
		log.Forget()
		return nil
	}
	mark := &Message{Kind: Mark}
	if !log.Marks() || !st.record(mark, false) {
		return nil
	}
	return sink.Write(mark)
}

// prime begins an event stream that has nothing to say yet.
func (st *Stream) prime(sink Sink) error {
	if !st.mayLog() || st.logging.log != nil {
		return nil
	}
	if err := st.begin(sink, true); err != nil || st.logging.log == nil {
		return err
	}
	return sink.Flush()
}

// record adds a message to the log; false if the stream has none, or not any more because the
// log has failed. Only the writer may call it.
func (st *Stream) record(m *Message, last bool) bool {
	log := st.logging.log
	if log == nil {
		return false
	}
	m.shown = true
	id, err := log.Append(m.whole(), last)
	if err != nil {
		st.giveUpLog()
		return false
	}
	m.EventID, m.logged = id, true
	return true
}

// giveUpLog makes the stream one that cannot be resumed, as an event is missing. If no
// exchange reads it, that is its end.
func (st *Stream) giveUpLog() {
	st.mu.Lock()
	log := st.logging.log
	unread := st.detached()
	st.logging.log, st.logging.never, st.wire.events = nil, true, true
	st.mu.Unlock()
	st.alone.Store(false)
	log.Forget()
	if unread {
		st.Fail(mcp.DropStreamGone)
	}
}

// keep stores one message of a stream that nobody reads. A call of a standing stream waits
// for a client instead: nobody knows whether one comes back for this stream, or opens another.
func (st *Stream) keep(m *Message, last bool) {
	switch {
	case m.logged, m.EndsExchange: // nobody reads the stream any more
		m.stored()
	case m.Kind == Call && st.Standing():
		m.drop(mcp.DropStreamGone)
	case !m.claim():
		m.drop(mcp.DropCancelled)
	default:
		st.host.beforeWrite(m)
		if st.record(m, last) {
			m.stored()
		} else {
			m.drop(st.Reason())
		}
	}
}
