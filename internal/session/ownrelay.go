package session

import (
	"time"

	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A relay hands messages for the session's own stream to the replica that has it. They wait in a stream, with
// its bounds. One is on its way at a time, so that they keep their order, until its fate is known. It is
// counted here, and not where it is written.
type relay struct {
	session *Session
	stream  *stream.Stream
	// number is that of the message on its way, and fate, with room for one, is told what became of it; else
	// nil. Both are guarded by session.mu.
	number uint64
	fate   chan OwnFate
}

// ownFateWait is how long a replica may take, beyond the time for one write, to say what became of a message.
// One that does not say it counts as dead.
const ownFateWait = 10 * time.Second

// relayed returns the stream of the session's relay, which it begins if there is none; nil if the session ends.
// It is called in [Session.update].
func (s *Session) relayed(st *state) *stream.Stream {
	if st.phase >= sessionEnding {
		return nil
	}
	if st.relay == nil || st.relay.stream.Reason() != "" {
		cfg := s.core.streamConfig(s.conn, 0, stream.LossDrops)
		cfg.Resumable = false
		r := &relay{session: s, stream: stream.New(&s.core.host, cfg)}
		st.relay = r
		s.core.tasks.start(func() { r.stream.Relay(r.hand) })
	}
	return st.relay.stream
}

// hand hands a message to the replica with the latest own stream. If that has none any more, the next one gets
// it.
func (r *relay) hand(m *stream.Message) stream.Fate {
	call, _ := m.Delivery.(*outbound)
	for {
		to, here := r.next(call != nil)
		switch {
		case here != nil:
			return stream.Fate{Moved: here}
		case to != ownPlace{}:
			fate := r.ask(to, m)
			if !fate.Unwritten {
				return stream.Fate{Stored: fate.Stored, Dropped: fate.Dropped}
			}
			r.session.refuse(to)
			if fate.Gone {
				r.session.forgetOwn(to.replica)
			}
			continue
		case call != nil:
			call.handed.CompareAndSwap(callHanded, callQueued) // it may find another stream
		}
		return stream.Fate{Dropped: mcp.DropStreamGone}
	}
}

// next returns where the next message goes: a notification to an own stream here, if the client has come back
// to it, or else any message to another replica.
func (r *relay) next(call bool) (to ownPlace, here *stream.Stream) {
	r.session.update(func(st *state) {
		own := st.standalone
		to = st.placeOf(true)
		switch {
		case call:
		case own != nil && (own.Read() || to == ownPlace{}):
			here = own
		case to == ownPlace{}:
			to = st.placeOf(false)
		}
	})
	return to, here
}

// ask hands a message to a replica and waits for its fate.
func (r *relay) ask(to ownPlace, m *stream.Message) OwnFate {
	s, e := r.session, r.session.core.elsewhere
	number, told := s.core.ownMessages.Add(1), make(chan OwnFate, 1)
	s.update(func(*state) { r.number, r.fate = number, told })
	defer s.update(func(*state) { r.fate = nil })
	sent, tried := e.Deliver(s.caller, Signal{Session: s.id, To: to.replica, Own: &OwnMessage{
		From: e.Replica(), Number: number, Method: m.Method, Frame: m.Frame, Call: m.Kind == stream.Call,
	}})
	switch {
	case !sent && tried:
		return OwnFate{Dropped: mcp.DropUnconfirmed}
	case !sent:
		return OwnFate{Dropped: mcp.DropStreamGone}
	}
	timer := time.NewTimer(s.core.limits.WriteTimeout + ownFateWait)
	defer timer.Stop()
	select {
	case fate := <-told:
		return fate
	case <-s.done:
	case <-timer.C:
		s.core.logger.Warn("stream.own_lost", "session", s.LogID(), "replica", to.replica)
		s.refuse(to)
		s.forgetOwn(to.replica)
	}
	return OwnFate{Dropped: mcp.DropUnconfirmed}
}

// ownFate takes the fate of a message, and reports whether that is awaited.
func (s *Session) ownFate(fate OwnFate) (awaited bool) {
	var told chan OwnFate
	s.update(func(st *state) {
		if r := st.relay; r != nil && r.number == fate.Number {
			told, r.fate = r.fate, nil
		}
	})
	if told != nil {
		told <- fate
	}
	return told != nil
}
