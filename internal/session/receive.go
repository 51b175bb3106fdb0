package session

import (
	"context"
	"runtime/debug"

	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// Receive takes one message of a byte stream, in the order of arrival. Answers
// leave on the session's own stream.
func (s *Session) Receive(in *Inbound) { s.ReceiveOn(in, s.stream) }

// ReceiveOn takes one message whose answer, if it gets one, leaves on st. It returns the refusal of
// a notification that comes too often.
func (s *Session) ReceiveOn(in *Inbound, st *stream.Stream) *mcp.Refusal {
	s.update(func(state *state) {
		state.malformed = 0
		if in.Era == mcp.Legacy && state.peer != nil && in.Version == "" {
			in.Version = state.peer.Version
		}
	})
	switch in.Kind {
	case wire.Request:
		s.core.admit(in, s, st)
	case wire.Notification:
		return s.notification(in)
	case wire.Response:
		s.response(in)
	}
	return nil
}

func (s *Session) notification(in *Inbound) *mcp.Refusal {
	if in.Method == mcp.NotificationCancelled {
		ctx, end := s.core.tellNotified(in, s)
		s.core.tellEnded(ctx, in, s, NotificationEnd{Ignored: s.cancel(ctx, in)})
		end()
		return nil
	}
	if refused := s.core.limitNotification(in, s); refused != nil {
		return refused
	}
	if in.Method == mcp.NotificationInitialized {
		s.Initialized()
	}
	s.core.notify(in, s)
	return nil
}

// cancel handles notifications/cancelled, whose span is in ctx. It returns why that was ignored, or "".
func (s *Session) cancel(ctx context.Context, in *Inbound) (reason mcp.IgnoreReason) {
	reason = mcp.IgnoreMalformed
	if in.Cancel != nil && in.Cancel.RequestIDOK {
		var r *Request
		s.update(func(st *state) { r = st.index[in.Cancel.RequestID.Key()] })
		switch {
		case r == nil && s.cancelElsewhere(ctx, in):
			s.core.ledger.received(receivedNotification)
			return ""
		case r == nil:
			reason = mcp.IgnoreUnknownID
		case r.Route.Handshake:
			reason = mcp.IgnoreNotCancellable
		case s.cancelRequest(r, in.Cancel.Reason):
			s.cancelElsewhere(ctx, in) // the client may have used the id for another request there
			s.core.ledger.received(receivedNotification)
			return ""
		default:
			reason = mcp.IgnoreUnknownID // settled meanwhile
		}
	}
	s.core.ledger.ignored(receivedNotification, mcp.IgnoredCancel, reason)
	s.core.logger.Debug("cancel.ignored", "session", s.LogID(), "reason", reason)
	return reason
}

// response handles the client's answer to an outbound request.
func (s *Session) response(in *Inbound) {
	reply, ok := decodeReply(in)
	reason := mcp.IgnoreMalformed
	if ok {
		var o *outbound
		s.update(func(st *state) {
			key := in.ID.Key()
			if o = st.outbound[key]; o != nil {
				st.removeCall(o, mcp.IgnoreDuplicate)
				return
			}
			reason = mcp.IgnoreUnknownID
			for _, old := range st.endedCalls {
				if old.key == key && key != "" {
					reason = old.late
				}
			}
		})
		if o != nil || reason == mcp.IgnoreUnknownID && s.answerElsewhere(in) {
			s.core.ledger.received(receivedResponse)
			if o != nil {
				o.end(reply)
			}
			return
		}
	}
	s.core.ledger.ignored(receivedResponse, mcp.IgnoredResponse, reason)
	s.core.logger.Debug("response.ignored", "session", s.LogID(), "id", in.ID.String(), "reason", reason)
}

// Receive takes the one request of a modern HTTP exchange.
func (c *Core) Receive(in *Inbound, st *stream.Stream) { c.admit(in, nil, st) }

// Notify takes a notification that no session receives. It returns the refusal of one that comes
// too often.
func (c *Core) Notify(in *Inbound) *mcp.Refusal {
	if in.Method == mcp.NotificationCancelled {
		c.ledger.ignored(receivedNotification, mcp.IgnoredCancel, mcp.IgnoreWrongTransport)
		c.logger.Debug("cancel.ignored", "reason", mcp.IgnoreWrongTransport)
		ctx, end := c.tellNotified(in, nil)
		c.tellEnded(ctx, in, nil, NotificationEnd{Ignored: mcp.IgnoreWrongTransport})
		end()
		return nil
	}
	if refused := c.limitNotification(in, nil); refused != nil {
		return refused
	}
	c.notify(in, nil)
	return nil
}

// IgnoreResponse counts a response that reached no session.
func (c *Core) IgnoreResponse(reason mcp.IgnoreReason) {
	c.ledger.ignored(receivedResponse, mcp.IgnoredResponse, reason)
}

// RejectUnadmitted counts a message that was refused before a session could
// receive it. The transport answers it.
func (c *Core) RejectUnadmitted(in *Inbound, reason mcp.RejectReason, err *mcp.Error) {
	switch in.Kind {
	case wire.Request:
		r := newRequest(c, in, nil, nil, c.dispatcher.Route(in, nil))
		c.ledger.rejected(receivedRequest, reason)
		c.tell("Rejected", func(o Observer) { o.Rejected(r, reason, err) })
		r.cancel(nil)
		r.letGo()
	case wire.Notification:
		c.ledger.rejected(receivedNotification, reason)
		ctx, end := c.tellNotified(in, nil)
		c.tellEnded(ctx, in, nil, NotificationEnd{Rejected: reason})
		end()
	case wire.Response:
		c.ledger.ignored(receivedResponse, mcp.IgnoredResponse, mcp.IgnoreWrongSession)
	}
}

// notify has a notification handled, in the order of arrival. The handler has a
// goroutine of its own, so that neither its panic nor its runtime.Goexit is the
// reader's.
func (c *Core) notify(in *Inbound, s *Session) {
	c.ledger.received(receivedNotification)
	handled := make(chan struct{})
	go func() {
		defer close(handled)
		normal := false
		defer func() {
			if v := recover(); !normal {
				c.logger.Error("notification.panic", "method", in.Method, "panic", v, "stack", string(debug.Stack()))
			}
		}()
		ctx, end := c.tellNotified(in, s)
		defer end()
		defer c.tellEnded(ctx, in, s, NotificationEnd{})
		c.dispatcher.Notify(ctx, in, s)
		normal = true
	}()
	<-handled
}

// ReceiveBatch takes the messages of one batch of a byte stream, in their order
// (specification 2025-03-26: "Batching"). Their answers leave as one array, as soon
// as the last of them is there.
func (s *Session) ReceiveBatch(members []Member) { s.ReceiveBatchOn(members, s.stream, false) }

// ReceiveBatchOn is ReceiveBatch for a batch whose answers leave on st. If apart is
// set they leave one by one, each as soon as it is there, unless every one of them
// rejects. It returns how many requests were admitted; without any, all the answers
// that there will be are there.
func (s *Session) ReceiveBatchOn(members []Member, st *stream.Stream, apart bool) (admitted int) {
	b := newBatch(st, members)
	for _, m := range members {
		switch {
		case m.Bad != nil:
			answer, last := s.judge(m.Bad, b)
			if answer != nil {
				b.Expect()
				b.reject(answer)
			}
			if last {
				return admitted // the session is closed
			}
		case m.In.Kind == wire.Request:
			before := b.rejected
			s.ReceiveOn(b.take(m.In), st)
			if b.rejected == before {
				admitted++
			}
		default:
			s.ReceiveOn(m.In, st)
		}
	}
	b.Received(apart && admitted > 0)
	if b.rejected > 0 && s.stream != nil {
		st.AwaitRejections(0)
	}
	return admitted
}
