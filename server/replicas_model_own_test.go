package server_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

import ()

// This file has the session's own stream, which its client opens at any replica, loses, and resumes at another.

// A modelOwn is the latest own stream of a session.
type modelOwn struct {
	home    *modelReplica // which writes it
	conn    *modelConn    // nil is none
	since   time.Time     // when the connection began
	sound   bool          // as that of a call
	reading *modelListener
	due     []modelDue // what its client must read
}

// exchange opens the stream at a replica, or goes on reading it there.
func (o *modelOwn) exchange(s *modelSession, at *modelReplica, lastEvent string) (status int) {
	r := legacyRequest("", s.header)
	r.Method = http.MethodGet
	if lastEvent != "" {
		r.Header.Set("Last-Event-ID", lastEvent)
	}
	o.conn, o.since = at.exchange(r, o.reading.take), time.Now()
	time.Sleep(3 * time.Second) // it may wait for the store, and for the replica that writes
	synctest.Wait()
	s.known[at] = true
	status, _ = o.conn.over()
	if status != http.StatusOK {
		o.conn = nil
	}
	return status
}

// leave breaks the connection.
func (o *modelOwn) leave() {
	if o.conn != nil {
		o.conn.leave()
		o.conn = nil
		synctest.Wait()
	}
	if !o.sound { // it goes on where it is, and cannot be resumed
		o.due = nil
	}
}

func (w *modelWorld) openOwn() bool {
	w.rest()
	r, s := w.anyReplica(), pick(w, w.sessions)
	if s.own != nil {
		s.own.leave() // a client reads one
	}
	w.note("%s opens its own stream at %s", s.name, r.name)
	s.listener.begin(w.allWell(), s.own != nil && s.own.home != r)
	o := &modelOwn{home: r, sound: r.well() && len(s.deletions) == 0, reading: s.listener}
	status := o.exchange(s, r, "")
	w.note("  status %d", status)
	if w.served(r, s, status, http.StatusOK) {
		s.own = o
	} else {
		s.own = nil
	}
	return true
}

// withOwn returns a session whose client has an own stream for which a condition holds, or nil.
func (w *modelWorld) withOwn(is func(o *modelOwn) bool) *modelSession {
	all := slices.DeleteFunc(slices.Clone(w.sessions), func(s *modelSession) bool { return s.own == nil || !is(s.own) })
	if len(all) == 0 {
		return nil
	}
	return pick(w, all)
}

func (w *modelWorld) leaveOwn() bool {
	w.rest()
	s := w.withOwn(func(o *modelOwn) bool { return o.conn != nil })
	if s != nil {
		w.note("%s leaves its own stream", s.name)
		s.own.leave()
	}
	return s != nil
}

// resumeOwn goes on reading an own stream at any replica, also while an earlier connection seems to be there.
func (w *modelWorld) resumeOwn() bool {
	w.rest()
	s := w.withOwn(func(o *modelOwn) bool { return o.reading.last() != "" })
	if s == nil {
		return false
	}
	w.resumeOwnAt(s, w.anyReplica())
	return true
}

func (w *modelWorld) resumeOwnAt(s *modelSession, r *modelReplica) {
	w.t.Helper()
	o := s.own
	o.leave()
	o.sound = o.sound && (r == o.home || r.well())
	w.note("%s resumes its own stream at %s", s.name, r.name)
	status := o.exchange(s, r, o.reading.last())
	w.note("  status %d", status)
	if w.served(r, s, status, http.StatusOK, http.StatusBadRequest, http.StatusTooManyRequests, http.StatusConflict) && o.sound && r.well() {
		require.Equal(w.t, http.StatusOK, status, "the own stream of %s cannot be resumed", s.name)
	}
}

// answerOwn answers a question that the client has got on its own stream, at any replica, perhaps again.
func (w *modelWorld) answerOwn() bool {
	w.rest()
	s := w.withOwn(func(o *modelOwn) bool { return len(o.reading.questions) > 0 })
	if s == nil {
		return false
	}
	r, id := w.anyReplica(), pick(w, s.listener.questions)
	frame, heard := rootsAnswer(id, fmt.Sprintf("file:///%s/%d", s.name, w.random.IntN(1000)))
	for _, c := range w.calls {
		if c.session == s {
			c.sent[heard] = true // the question does not say of which call it is
		}
	}
	w.note("the client of %s answers %s of its own stream at %s", s.name, id, r.name)
	status, _, _ := w.message(r, s, http.MethodPost, frame)
	w.served(r, s, status, http.StatusAccepted)
	return true
}

// unsoundOwn is [modelWorld.unsound] for own streams.
func (w *modelWorld) unsoundOwn(r *modelReplica) {
	for _, s := range w.sessions {
		if o := s.own; o != nil && (o.home == r || o.conn != nil && o.conn.at == r) {
			o.sound = false
		}
	}
}

// checkOwn checks that the client of a session has read what it must have read.
func (w *modelWorld) checkOwn(s *modelSession) {
	w.t.Helper()
	if !w.allWell() {
		s.listener.loose = true
	}
	s.listener.check(w, s)
	o := s.own
	if o == nil {
		return
	}
	over := false
	if o.conn != nil {
		_, over = o.conn.over()
	}
	if len(s.deletions) > 0 || o.conn == nil && !o.sound {
		o.due = nil
	}
	o.due = slices.DeleteFunc(o.due, func(d modelDue) bool {
		if d.read(s.listener) || d.void(o) {
			return true
		}
		require.False(w.t, d.ready(o), "%s has not read %s", s.name, d)
		return false
	})
	if over {
		o.conn = nil
		if o.home.killed { // "the reader ends the stream", which has nothing more
			require.True(w.t, !o.sound || len(o.due) == 0, "the own stream of %s has ended before %v", s.name, o.due)
			o.sound, o.due = false, nil
		}
	}
}
