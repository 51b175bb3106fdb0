package stream

import "github.com/vitrine-mcp/vitrine/mcp"

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
	mark := &Message{Kind: Mark, Delivery: Unobserved}
	if !log.Marks() || !st.record(mark, false, true) {
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
// log has failed. written tells that it is written to a connection next. Only the writer may call
// it.
func (st *Stream) record(m *Message, last, written bool) bool {
	log := st.logging.log
	if log == nil {
		return false
	}
	m.shown = true
	id, err := log.Append(m.whole(), last, written)
	m.EventID, m.logged = id, err == nil
	if err != nil {
		st.giveUpLog()
	}
	return m.logged
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
