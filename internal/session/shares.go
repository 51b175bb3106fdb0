package session

import (
	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/share"
	"github.com/vitrine-mcp/vitrine/internal/stream"
)

// shares are what the callers of a server share, see [share.Pool].
type shares struct {
	callers       *share.Table
	slots         *share.Pool  // of running handlers
	control       *share.Pool  // of requests about the connection itself
	waiting       *share.Queue // for a slot
	subscriptions *share.Pool  // requests whose route is one for subscriptions
	subscribed    *share.Pool  // bytes of what subscriptions and sessions are about
	running       *share.Pool  // detached work
	turns         *share.Turns // of work that takes processor time
	places        *share.Pool  // of legacy HTTP sessions
	unread        *share.Count // modern exchanges whose answer has no fate yet
	bodies        *share.Bytes // of messages that have not come or are being served, see Body
	values        *share.Bytes // Go values of what is decoded for handlers, see HoldValue
	output        *stream.Output
	evictions     *evictions
}

func newShares(l *limits.Limits) shares {
	t := share.NewTable()
	return shares{
		callers: t, slots: t.Pool(l.MaxInFlightTotal).Cap(l.MaxInFlightPerCaller), control: t.Pool(l.MaxInFlightControl),
		waiting: share.NewQueue(l.MaxQueue), subscriptions: t.Pool(l.MaxSubscriptions), subscribed: t.Pool(l.MaxSubscribedBytes), running: t.Pool(l.MaxRunningTasks),
		places: t.Pool(l.MaxSessions), unread: t.Count(l.MaxUnread), evictions: newEvictions(l.MaxSessions),
		bodies: t.Bytes(int64(l.MaxBodyBytesPending), nil), values: t.Bytes(int64(l.MaxArgumentBytesTotal), nil), turns: newTurns(t, l),
	}
}

// Subscribed returns the bytes that callers share for the resources and tasks to which they have subscribed.
func (c *Core) Subscribed() *share.Pool { return c.subscribed }

// newOutput returns the budget of what waits for its readers.
func (c *Core) newOutput() *stream.Output {
	o := &stream.Output{
		CallerOf: func(conn any) *share.Caller { return c.Caller(conn.(*Conn)) },
		HasShed: func(largest *share.Caller, streams int, bytes int64) {
			c.ledger.limitReached(limits.NameQueuedBytesTotal)
			c.logger.Warn("output.shed", "caller", largest.Key().String(), "streams", streams, "bytes", bytes)
		},
	}
	o.Budget = c.callers.Bytes(int64(c.limits.MaxQueuedBytesTotal), o.Shed)
	return o
}

// Caller returns the record of who calls over a connection, with a reference that the caller of
// Caller must release. conn may be nil.
func (c *Core) Caller(conn *Conn) *share.Caller { return c.callers.Get(conn.caller()) }

// caller returns who calls over the connection, which may be nil.
func (c *Conn) caller() share.Key {
	switch {
	case c == nil:
		return share.Key{}
	case c.session != nil:
		return c.session.caller
	}
	return share.KeyOf(c.Principal, share.AddrOf(c.RemoteAddr))
}

// CallerOf returns the record of the sender of a message, with a reference that the caller of CallerOf
// must release. s may be nil. The transport may have let go of the message.
func (c *Core) CallerOf(in *Inbound, s *Session) *share.Caller {
	if s != nil {
		return c.callers.Get(s.caller) // not the session's own reference: it may have ended
	}
	return c.Caller(in.Conn)
}

// HoldCaller returns the record of the sender of the request, with a reference that its caller must
// release. The request may be over.
func (r *Request) HoldCaller() *share.Caller { return r.core.CallerOf(r.Inbound, r.session) }

// callerOf is CallerOf while the transport hands the message over.
func (c *Core) callerOf(in *Inbound, s *Session) *share.Caller {
	if in.Caller != nil {
		return in.Caller.Hold()
	}
	return c.CallerOf(in, s)
}

// callerOfStream is caller for a byte stream. One without a principal and an address, such as
// stdio, is a caller of its own.
func (c *Conn) callerOfStream() share.Key {
	if key := c.caller(); key != (share.Key{}) {
		return key
	}
	return share.KeyOfConnection()
}
