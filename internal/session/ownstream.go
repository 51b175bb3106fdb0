package session

import (
	"cmp"
	"context"
	"slices"

	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// This file is about where the session's own stream is. A client opens it (GET) at any replica, which tells the
// others in what they share of the session. A client may have several, at different replicas.

// isShared reports whether other replicas may have the session's own stream.
func (s *Session) isShared() bool { return s.core.elsewhere != nil && s.sealed() }

// watchOwn tells the other replicas that the client reads its own stream here, and each time that it ends or
// begins to read it.
func (s *Session) watchOwn(st *stream.Stream) {
	if s.isShared() {
		st.WatchReaders(s.ownMoved)
		s.moves.Add(1)
		s.shareOwn()
	}
}

// ownMoved tells the other replicas where the session's own stream is, and sends what has waited for it. It
// does not block.
func (s *Session) ownMoved() {
	s.moves.Add(1)
	s.core.tasks.start(func() {
		s.releaseCalls()
		s.shareOwn()
	})
}

// shareOwn tells the other replicas where the session's own stream is, if they do not know. It waits for the
// store: a client that has been told that its stream is open can be asked by any replica, see findOwn.
func (s *Session) shareOwn() {
	if !s.isShared() || s.endedForAll() {
		return
	}
	s.sharing.Lock()
	defer s.sharing.Unlock()
	s.shareAll(false)
}

// findOwn asks the store where the client reads the session's own stream, unless this replica knows. It may
// not have heard of it yet.
func (s *Session) findOwn(ctx context.Context) {
	if !s.isShared() {
		return
	}
	known := false
	s.update(func(st *state) {
		known = st.standalone != nil && st.standalone.Read() || st.placeOf(true) != ownPlace{}
	})
	if known {
		return
	}
	if shared, err := s.core.elsewhere.State(ctx, s.id); err == nil {
		_ = s.apply(shared) // another occasion finds that the store has lost a later one
	}
}

// forgetOwn tells the other replicas that one of them does not have the session's own stream. It does not
// block. If that has it after all, it says so.
func (s *Session) forgetOwn(replica string) {
	s.core.tasks.start(func() { s.Share(func(st *SharedState) { st.removeOwn(replica) }) })
}

// endedForAll reports whether the session has ended at all replicas.
func (s *Session) endedForAll() (ended bool) {
	s.update(func(st *state) {
		ended = st.phase >= sessionEnding && (st.cause == mcp.CauseSessionDelete || st.cause == mcp.CauseOperator)
	})
	return ended
}

// ownHere returns what this replica has of the session's own stream; false if that is nothing.
func (s *Session) ownHere() (own OwnStream, there bool) {
	var st *stream.Stream
	s.update(func(state *state) {
		if state.phase == sessionOpen && !state.leaving {
			st = state.standalone
		}
	})
	if st == nil || st.Reason() != "" {
		return own, false
	}
	return OwnStream{s.core.elsewhere.Replica(), st.Read()}, true
}

// noteOwn writes what this replica has of the session's own stream to what the replicas share. What it has
// begun to read is the latest. If the session has another object here by now, that counts.
func (s *Session) noteOwn(shared *SharedState) {
	own, there := s.latest().ownHere()
	switch i := shared.ownOf(s.core.elsewhere.Replica()); {
	case !there && i >= 0:
		shared.Streams = slices.Delete(shared.Streams, i, i+1)
	case there && i >= 0 && own == shared.Streams[i]:
	case there:
		shared.removeOwn(own.Replica)
		shared.Streams = append(shared.Streams, own)
		shared.Streams = shared.Streams[max(0, len(shared.Streams)-maxOwnStreams):]
	}
}

// latest returns the object that the session has here by now: this one, unless another one has replaced it.
func (s *Session) latest() *Session {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	return cmp.Or(s.core.inner[s.id], s)
}

// correctOwn tells the other replicas if a state says something else of this one than what is. A state without
// room says nothing. An object that was replaced leaves it to the one that counts: the two would not come to an end.
func (s *Session) correctOwn(shared SharedState) {
	if !s.isShared() || s.latest() != s {
		return
	}
	own, there := s.ownHere()
	i := shared.ownOf(s.core.elsewhere.Replica())
	switch {
	case !there && i < 0, there && i < 0 && len(shared.Streams) >= maxOwnStreams:
	case there && i >= 0 && own == shared.Streams[i]:
	default:
		s.ownMoved()
	}
}

// refuse notes that a replica did not have the own stream, until there is another state.
func (s *Session) refuse(p ownPlace) {
	s.update(func(st *state) {
		if st.sharedState().Revision == p.revision {
			st.refused = append(st.refused, p)
		}
	})
}

// callStream returns the own stream that the client reads, here or, by a relay, at another replica, or nil.
func (s *Session) callStream(st *state) *stream.Stream {
	switch {
	case st.standalone != nil && st.standalone.Read():
		return st.standalone
	case st.placeOf(true) != ownPlace{}:
		return s.relayed(st)
	}
	return nil
}

// noticeStream returns the own stream for a notification that this replica alone sends: the one for calls, or
// one that the client may resume. reason is why there is none.
func (s *Session) noticeStream() (to *stream.Stream, reason mcp.DropReason) {
	to, reason = s.own()
	if !s.isShared() {
		return to, reason
	}
	s.update(func(st *state) {
		if st.relay != nil && st.relay.stream.Reason() == "" && st.relay.stream.Busy() {
			to = st.relay.stream // nothing overtakes what waits there; it comes here if the client does
			return
		}
		if to != nil && to.Read() {
			return
		}
		if (st.placeOf(true) == ownPlace{}) && (to != nil || st.placeOf(false) == ownPlace{}) {
			return
		}
		if relay := s.relayed(st); relay != nil {
			to, reason = relay, ""
		}
	})
	return to, reason
}

// releaseCalls sends the calls that have waited for the session's own stream, if the client reads one.
func (s *Session) releaseCalls() {
	var to *stream.Stream
	var calls []*outbound
	s.update(func(st *state) {
		if len(st.waitingCalls) == 0 {
			return
		}
		if to = s.callStream(st); to != nil {
			calls = st.takeWaitingCalls(to)
		}
	})
	for _, o := range calls {
		o.pushTo(to)
	}
}
