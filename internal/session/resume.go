package session

import (
	"context"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/resume"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/store"
)

// This file connects a legacy session to the logs of its streams, with which its client goes
// on reading a stream whose exchange was lost.

// Revision implements [resume.Session].
func (s *Session) Revision() (v mcp.Version, open bool) {
	s.update(func(st *state) {
		open = st.phase == sessionOpen
		if st.peer != nil {
			v = st.peer.Version
		}
	})
	return v, open
}

// Tell implements [resume.Session].
func (s *Session) Tell(replica string, m resume.Signal) {
	if e := s.core.elsewhere; e != nil {
		e.Send(s.caller, Signal{Session: s.id, To: replica, Stream: &m})
	}
}

// ShareEvents has the events of streams in a log that the replicas share, in place of the memory of this
// process. An event store that the program has chosen stays. It must be called before the first message,
// after [Core.ServeElsewhere].
func (c *Core) ShareEvents(log store.EventLog) {
	if c.eventMemory() != nil {
		c.store.Events = resume.NewShared(log, c.elsewhere.Replica(), func() limits.Limits { return c.limits })
	}
}

// opener returns what opens the logs of the session's streams, or nil. s may be nil.
func (s *Session) opener() stream.Opener {
	if s == nil || s.logs == nil {
		return nil
	}
	return s.logs
}

// opener is that of the session. What answers a handshake cannot be resumed.
func (r *Request) opener() stream.Opener {
	if r.Route.Handshake {
		return nil
	}
	if s := r.session; s == nil || s.logs == nil {
		return nil
	}
	return (*answerOpener)(r)
}

// An answerOpener opens the log of a stream that answers a request.
type answerOpener Request

// Open implements [stream.Opener].
func (o *answerOpener) Open(st *stream.Stream, primed bool) stream.Log {
	return o.session.logs.OpenFor(st, primed, o.ID)
}

// Resumes implements [stream.Opener].
func (o *answerOpener) Resumes() bool { return o.session.logs.Resumes() }

// endLogs deletes what the event store has of the session, which has ended for a cause.
func (s *Session) endLogs(cause mcp.Cause) {
	if s.logs != nil {
		s.logs.End(cause)
	}
}

// Resume makes the caller's exchange the reader of the stream of an event, see
// [resume.Logs.Resume].
func (s *Session) Resume(ctx context.Context, lastEventID string) (*resume.Reader, error) {
	if s.logs == nil {
		return nil, resume.ErrEventUnknown
	}
	r, err := s.logs.Resume(ctx, lastEventID)
	if err != nil {
		return nil, err
	}
	r.Closed, r.Draining = s.unlisten, s.core.subscriptionsEnding
	s.listen(r.Stream())
	s.core.ledger.count(func(t *tally) { t.StreamsResumed++ })
	return r, nil
}

// listen counts an exchange that keeps the session from being idle. On the session's
// own stream it takes the calls that have waited for one.
func (s *Session) listen(st *stream.Stream) {
	var waitingCalls []*outbound
	s.update(func(state *state) {
		state.listeners++
		if state.standalone == st {
			waitingCalls = state.takeWaitingCalls(st)
		}
	})
	for _, o := range waitingCalls {
		o.pushTo(st)
	}
	s.shareOwn()
}

// unlisten ends what listen has begun.
func (s *Session) unlisten() {
	s.update(func(state *state) {
		if state.listeners--; state.listeners == 0 && len(state.live) == 0 {
			state.quietAt = time.Now()
		}
	})
}

// EventsHeld returns what the event store in memory has of the session.
func (s *Session) EventsHeld() resume.Held {
	if s.logs == nil {
		return resume.Held{}
	}
	return s.logs.Held()
}
