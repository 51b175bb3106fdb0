package resume

import (
	"errors"
	"strconv"
	"sync"

	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/store"
)

// A Log makes one stream resumable. It implements [stream.Log].
type Log struct {
	logs  *Logs
	of    *stream.Stream
	key   string // the stream's name in the store
	marks bool   // the client's revision knows events without data
	// stored tells that the stream has ended before, and is there to be read again.
	stored bool
	// note is what the first event says of the stream: the id of the request that it answers. It may be nil.
	note []byte

	mu       sync.Mutex // guards the rest
	seq      uint64     // of the last event
	last     bool       // which says that none follows
	written  uint64     // the last event that may have been written to a connection
	follower follower
	fetched  uint64 // the last event that another replica has replayed
}

// Append implements [stream.Log].
func (l *Log) Append(data []byte, last, written bool) (id string, err error) {
	l.mu.Lock()
	seq := l.seq + 1
	l.mu.Unlock()
	ev := store.Event{Stream: l.key, Seq: seq, Data: data, Last: last}
	if seq == 1 {
		ev.Note = l.note
	}
	if err := l.logs.events.append(ev); err != nil {
		return l.uncertain(seq, err), err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq, l.last = seq, last
	l.grown()
	if written {
		l.written = seq
	}
	return l.ID(seq), nil
}

// uncertain returns the id of an event whose append has failed, if the store may have it: a client that does not know
// that it has the event would get it again from another replica.
func (l *Log) uncertain(seq uint64, err error) (id string) {
	if errors.Is(err, store.ErrEventFenced) || errors.Is(err, store.ErrEventTooLarge) || errors.Is(err, errEnded) {
		return ""
	}
	return l.ID(seq)
}

// ID returns the id of an event.
func (l *Log) ID(seq uint64) string { return l.logs.events.id(l.key, seq) }

// Marks implements [stream.Log].
func (l *Log) Marks() bool { return l.marks }

// Complete implements [stream.Log].
func (l *Log) Complete() bool {
	_, last := l.end()
	return last
}

// end returns the number of the last event, and whether that says that none follows.
func (l *Log) end() (seq uint64, last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seq, l.last
}

// Forget implements [stream.Log]. It takes the stream out of the table, unless somebody has
// come to read it meanwhile. What the store has of it stays there. Of a stream without a last
// event nothing can be fetched any more.
func (l *Log) Forget() {
	if _, open := l.logs.session.Revision(); open && !l.Complete() {
		l.logs.events.streamEnded(l.key)
	}
	l.unfollow(Gone)
	l.logs.mu.Lock()
	defer l.logs.mu.Unlock()
	if l.logs.byKey[l.key] == l && !(l.of.Log() != nil && l.of.Live()) {
		delete(l.logs.byKey, l.key)
	}
}

// LogAttrs implements [stream.Log].
func (l *Log) LogAttrs() []any { return append(l.logs.session.LogAttrs(), "stream", l.key) }

// NoteUnread notes that an answer is in the store and was not sent. id is that of its event. What
// about is, [Store.Expired] is told if the answer expires. It must be a pointer.
func (l *Log) NoteUnread(id string, about any) {
	_, seq, _ := l.logs.events.parse(id)
	l.mu.Lock()
	written := l.written
	l.mu.Unlock()
	l.logs.events.noteUnread(unread{stream: l.key, seq: seq, needs: min(written+1, seq), about: about})
	l.mu.Lock()
	fetched := l.fetched
	l.mu.Unlock()
	if fetched >= seq { // by a reader that was quicker
		l.logs.events.fetched(l.key, fetched)
	}
}

// Logs are the logs of the streams of one session. They are safe for concurrent use.
//
// Lock order: that of the logs, then the session's, and a stream's.
type Logs struct {
	events  *events
	session Session
	host    *stream.Host
	config  stream.Config

	mu        sync.Mutex            // guards the rest
	byKey     map[string]*Log       // of the streams that can be resumed
	following map[string]*following // streams of other replicas
	seq       int                   // of those so far
}

// NewLogs returns the logs of the session with an id. The events of all sessions of an owner, a
// comparable value, count together. Streams that are read again are made by host with the config.
func (s *Store) NewLogs(id string, owner any, session Session, host *stream.Host, config stream.Config) *Logs {
	return &Logs{events: newEvents(s, id, owner, session), session: session, host: host, config: config, byKey: map[string]*Log{}}
}

// The first revisions that know event ids, and events without data.
const (
	firstWithIDs   = mcp.Version20250326
	firstWithMarks = mcp.Version20251125
)

// Open implements [stream.Opener].
func (ls *Logs) Open(st *stream.Stream, primed bool) stream.Log {
	return ls.OpenFor(st, primed, mcp.ID{})
}

// OpenFor is Open for a stream that answers the request with an id.
func (ls *Logs) OpenFor(st *stream.Stream, primed bool, id mcp.ID) stream.Log {
	least := firstWithIDs
	if primed {
		least = firstWithMarks
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	v, open := ls.session.Revision()
	if !open || v == "" || !v.AtLeast(least) {
		return nil
	}
	ls.seq++
	log := &Log{logs: ls, of: st, key: strconv.Itoa(ls.seq), marks: v.AtLeast(firstWithMarks)}
	if shared := ls.events.store.shared(); shared != nil {
		log.key = shared.name()
		if st.Single() {
			log.note = []byte(id.Raw())
		}
	}
	ls.byKey[log.key] = log
	return log
}

// Resumes implements [stream.Opener].
func (ls *Logs) Resumes() bool {
	v, _ := ls.session.Revision()
	return v != "" && v.AtLeast(firstWithIDs)
}

// find returns the log with a key. A stream that has ended is in the store only, and gets a
// stand-in for as long as somebody reads it.
func (ls *Logs) find(key string) (*Log, error) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	v, open := ls.session.Revision()
	switch {
	case !open:
		return nil, mcp.ErrClosed
	case !ls.named(key):
		return nil, ErrEventUnknown
	}
	log := ls.byKey[key]
	if log == nil {
		log = &Log{logs: ls, key: key, marks: v.AtLeast(firstWithMarks), stored: true, last: true}
		log.of = stream.NewStored(ls.host, ls.config, log)
		ls.byKey[key] = log
	}
	return log, nil
}

// named reports whether a stream may have a key. The caller must hold ls.mu.
func (ls *Logs) named(key string) bool {
	if ls.events.store.shared() != nil {
		_, ok := writerOf(key)
		return ok
	}
	n, err := strconv.Atoi(key)
	return err == nil && 1 <= n && n <= ls.seq && strconv.Itoa(n) == key
}

// Fail fails the streams that no exchange reads or that are only read again, and those of
// the session itself.
func (ls *Logs) Fail(reason mcp.DropReason) {
	ls.mu.Lock()
	all := make([]*Log, 0, len(ls.byKey))
	for _, log := range ls.byKey {
		all = append(all, log)
	}
	ls.mu.Unlock()
	for _, log := range all {
		if log.stored || log.of.Standing() || log.of.Unread() {
			log.of.Fail(reason)
		}
	}
}

// Unread returns how many stored answers the client has not fetched, and may still fetch.
func (ls *Logs) Unread() int { return ls.events.count() }

// End deletes what the store has of the session, which has ended for a cause.
func (ls *Logs) End(cause mcp.Cause) { ls.events.end(cause) }

// tell sends a signal of a stream to another replica.
func (ls *Logs) tell(replica string, m Signal) {
	if shared := ls.events.store.shared(); shared != nil && replica != "" && replica != shared.replica {
		m.From = shared.replica
		ls.session.Tell(replica, m)
	}
}

// tellFetched tells the writer of a stream that its events up to one were replayed.
func (ls *Logs) tellFetched(stream string, seq uint64) {
	if writer, ok := writerOf(stream); ok {
		ls.tell(writer, Signal{Kind: Fetched, Stream: stream, Seq: seq})
	}
}

// live returns the log of a stream that this process writes, or nil.
func (ls *Logs) live(stream string) *Log {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	log := ls.byKey[stream]
	if log == nil || log.stored {
		return nil
	}
	return log
}
