package session

import (
	"context"
	"sync/atomic"

	"github.com/vitrine-mcp/vitrine/internal/share"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// carry writes a message of another replica to the session's own stream. There is at most one of each replica.
func (s *Session) carry(m *OwnMessage) {
	var st *stream.Stream
	s.update(func(state *state) {
		if state.phase == sessionOpen && !state.leaving {
			st = state.standalone
		}
	})
	d := &carried{session: s, from: m.From, number: m.Number}
	message := &stream.Message{Kind: stream.Notification, Method: m.Method, Frame: m.Frame, Delivery: d}
	switch {
	case st == nil:
		s.core.refuseOwn(s.id, m)
	case m.Call && !st.Read():
		d.Dropped(mcp.DropStreamGone)
	case m.Call:
		message.Kind = stream.Call
		st.Push(message)
	default:
		_ = st.Post(message) // d tells what becomes of it
	}
}

// refuseOwn says that this replica has nothing of a session.
func (c *Core) refuseOwn(session string, m *OwnMessage) {
	c.elsewhere.Send(share.Key{}, Signal{Session: session, To: m.From, Fate: &OwnFate{
		Number: m.Number, Dropped: mcp.DropStreamGone, Unwritten: true, Gone: true,
	}})
}

// A carried is the delivery of a message of another replica, which it tells the fate.
type carried struct {
	session *Session
	from    string
	number  uint64
	written atomic.Bool
}

// Claim implements [stream.Delivery].
func (d *carried) Claim() bool {
	d.written.Store(true)
	return true
}

// Sent implements [stream.Delivery].
func (d *carried) Sent() { d.tell(OwnFate{}) }

// Stored implements [stream.Delivery].
func (d *carried) Stored() { d.tell(OwnFate{Stored: true}) }

// Dropped implements [stream.Delivery].
func (d *carried) Dropped(reason mcp.DropReason) {
	d.tell(OwnFate{Dropped: reason, Unwritten: !d.written.Load()})
}

// Refused implements [stream.Notice].
func (*carried) Refused(_ context.Context, failed mcp.DropReason, ended bool) (mcp.DropReason, error) {
	switch {
	case failed != "":
		return failed, stream.SendError(failed)
	case ended:
		return mcp.DropStreamGone, mcp.ErrPeerGone
	}
	return "", nil
}

func (d *carried) tell(fate OwnFate) {
	s := d.session
	fate.Number = d.number
	s.core.elsewhere.Send(s.caller, Signal{Session: s.id, To: d.from, Fate: &fate})
}
