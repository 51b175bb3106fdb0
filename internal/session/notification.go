package session

import (
	"context"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A notice is a notification, and its delivery.
type notice struct {
	stream.Message
	core  *Core
	about *Request // or nil
	done  func()   // called once, when it was written, stored or dropped; or nil
}

// newNotice returns a notification about a request, or about none. params is the JSON of its
// params member.
func newNotice(c *Core, about *Request, method string, params []byte) *notice {
	n := &notice{core: c, about: about}
	n.Message = stream.Message{
		Kind: stream.Notification, Method: method, Delivery: n,
		Frame: wire.AppendNotification(make([]byte, 0, 64+len(method)+len(params)), method, params),
	}
	return n
}

// Claim implements [stream.Delivery]. A notification of a request whose client wants nothing
// more is not written.
func (n *notice) Claim() bool {
	r := n.about
	return r == nil || r.verdict.outcome() != suppressed && !r.verdict.byClient()
}

// Sent implements [stream.Delivery].
func (n *notice) Sent() {
	n.core.ledger.notificationSent(n.Method)
	n.finish()
}

// Stored implements [stream.Delivery].
func (n *notice) Stored() { n.finish() }

func (n *notice) finish() {
	if n.done != nil {
		n.done()
	}
}

// Dropped implements [stream.Delivery].
func (n *notice) Dropped(reason mcp.DropReason) {
	if n.about != nil {
		reason = n.about.noticeReason(reason)
	}
	n.core.dropNotification(n.about, n.Method, reason)
	n.finish()
}

// Refused implements [stream.Notice]. The cancellation of the request comes first and then
// what has become of the stream, so that the reason does not depend on which of them wakes a
// waiter; on a byte stream only what the client has decided, because the loss of the stream is
// what cancels the rest.
func (n *notice) Refused(ctx context.Context, failed mcp.DropReason, ended bool) (mcp.DropReason, error) {
	r, cause := n.about, context.Cause(ctx)
	switch {
	case r != nil && cause != nil && r.verdict.cancelled() && (!r.onByteStream() || r.verdict.byClient()):
		return r.verdict.dropReason(), cause
	case failed != "":
		return failed, stream.SendError(failed)
	case r != nil && r.verdict.outcome() != open: // also when its answer has ended the stream
		return r.verdict.dropReason(), mcp.ErrRequestDone
	case ended:
		return mcp.DropClosedWriter, mcp.ErrClosed
	case r != nil && cause != nil:
		return r.verdict.dropReason(), cause
	case cause != nil:
		return mcp.DropQueueFull, cause
	}
	return "", nil
}

// dropNotification counts and logs a notification that is not sent. r is the
// request that it is about, or nil.
func (c *Core) dropNotification(r *Request, method string, reason mcp.DropReason) {
	c.ledger.notificationDropped(method, reason)
	if r != nil {
		c.tell("NotificationDropped", func(o Observer) { o.NotificationDropped(r, method, reason) })
	}
	if ok, silenced := c.linesAbout(r).Allow("notification.dropped", string(reason), time.Now()); ok {
		ctx, attrs := context.Background(), []any{"notification", method, "reason", reason, "silenced", silenced}
		if r != nil {
			ctx, attrs = r.ctx, append(attrs, r.LogAttrs()...)
		}
		c.logger.DebugContext(ctx, "notification.dropped", attrs...)
	}
}

// DropNotification counts a notification that belongs to no request and is sent to nobody.
func (c *Core) DropNotification(method string, reason mcp.DropReason) {
	c.dropNotification(nil, method, reason)
}

// Notify sends a notification about this request on its stream, before the
// answer. params is the JSON of its params member. A notification with a key
// replaces one with the same key that still waits in a full queue, as progress
// does. Notify waits for room at most as long as the notify time-out and the
// request's context allow, and returns [mcp.ErrRequestDone] once the request is
// settled, [mcp.ErrPeerGone] or [mcp.ErrClosed] when the stream has failed, and
// the context's cause when the request was cancelled meanwhile. Every
// notification that is not sent is counted.
func (r *Request) Notify(method string, params []byte, key string) error {
	if to := r.verdict.outcome(); to != open {
		reason := r.verdict.dropReason()
		if failed := r.stream.Reason(); to == suppressed && failed != "" {
			reason = failed
		}
		r.core.dropNotification(r, method, r.noticeReason(reason))
		return mcp.ErrRequestDone
	}
	n := newNotice(r.core, r, method, params)
	n.Key = stream.Key{Of: r, Name: key}
	r.core.hooks.at(pointBeforeNotify, r)
	return r.stream.Notify(r.ctx, &n.Message, r.core.limits.NotifyTimeout)
}

// noticeReason returns the reason for which a notification about the request is dropped, given
// the reason of its stream. It is the reason that a dropped answer would have: first that the
// client has cancelled, then that its session was removed, then that of the stream.
func (r *Request) noticeReason(said mcp.DropReason) mcp.DropReason {
	if r.verdict.byClient() {
		return mcp.DropCancelled
	}
	switch said {
	case mcp.DropClosedWriter, mcp.DropBrokenPeer, mcp.DropWriteTimeout, mcp.DropStreamGone:
		if r.session != nil && r.session.removed() {
			return mcp.DropSessionGone
		}
	}
	return said
}

// TakesNotifications reports whether the client takes notifications about this request: it does
// if it takes an event stream for the answer.
func (r *Request) TakesNotifications() bool { return !r.stream.TakesAnswersOnly() }

// DropNotification counts a notification that is not queued at all.
func (r *Request) DropNotification(method string, reason mcp.DropReason) {
	r.core.dropNotification(r, method, reason)
}

// Post queues a notification about this request, before the answer, without waiting
// for room. params is the JSON of its params member. done, if it is not nil, is called
// once, when the notification was written or dropped: by any goroutine, also before
// Post returns, so that it must not block. The errors are those of [Request.Notify]; a
// cancelled request may post until its outcome is decided.
func (r *Request) Post(method string, params []byte, done func()) error {
	n := newNotice(r.core, r, method, params)
	n.done = done
	return r.stream.Post(&n.Message)
}

// Notify sends a notification that belongs to no request, and that no other replica sends. It waits for
// room as [Request.Notify] does, and returns [mcp.ErrPeerGone] when the client has no
// stream open, here or at another replica.
func (s *Session) Notify(ctx context.Context, method string, params []byte, key string) error {
	n := newNotice(s.core, nil, method, params)
	n.Key = stream.Key{Name: key}
	s.findOwn(ctx)
	st, reason := s.noticeStream()
	if st == nil {
		n.Dropped(reason)
		return stream.SendError(reason)
	}
	return st.Notify(ctx, &n.Message, s.core.limits.NotifyTimeout)
}

// Post queues a notification that belongs to no request, as [Request.Post] does. It is
// dropped if the client has no stream open.
func (s *Session) Post(method string, params []byte, done func()) {
	s.post(method, params, done, true)
}

// PostEach is [Session.Post] for a notification of which each one counts. It is stored for a
// client that is away, however many equal ones were stored before.
func (s *Session) PostEach(method string, params []byte, done func()) {
	s.post(method, params, done, false)
}

func (s *Session) post(method string, params []byte, done func(), once bool) {
	n := newNotice(s.core, nil, method, params)
	n.done, n.Once = done, once
	st, reason := s.own()
	if st == nil {
		n.Dropped(reason)
		return
	}
	_ = st.Post(&n.Message) // the drop of a stream that has failed meanwhile is counted
}

// own returns the stream for what belongs to no request, or why there is none.
func (s *Session) own() (st *stream.Stream, reason mcp.DropReason) {
	if s.stream != nil {
		return s.stream, ""
	}
	reason = mcp.DropStreamGone
	s.update(func(state *state) {
		st = state.standalone
		if state.phase >= sessionEnding {
			reason = mcp.DropSessionGone
		}
	})
	return st, reason
}
