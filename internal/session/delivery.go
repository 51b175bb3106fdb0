package session

import (
	"context"

	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// This file is what becomes of the messages that the core sends: each kind is a
// [stream.Delivery]. That of our own requests is in outbound.go.

// An answer is a request as the delivery of its answer, and as an owner of its stream.
type answer Request

// Claim implements [stream.Delivery].
func (a *answer) Claim() bool { return true }

// Sent implements [stream.Delivery].
func (a *answer) Sent() {
	r := (*Request)(a)
	r.core.hooks.at(pointAfterFlush, r)
	r.conclude(FateSent, "")
	if !r.reply.Shown() && r.batch == nil && r.buffer != nil {
		r.core.frames.put(r.buffer, r.reply.Frame)
	}
}

// Stored implements [stream.Delivery].
func (a *answer) Stored() {
	r := (*Request)(a)
	r.core.hooks.at(pointAfterFlush, r)
	r.conclude(FateStored, "")
}

// Dropped implements [stream.Delivery].
func (a *answer) Dropped(reason mcp.DropReason) { (*Request)(a).conclude(FateDropped, reason) }

// Disconnect implements [stream.Owner].
func (a *answer) Disconnect(reason mcp.DropReason) { (*Request)(a).disconnect(reason) }

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
	if n.done != nil {
		n.done()
	}
}

// Stored implements [stream.Delivery].
func (n *notice) Stored() { n.Sent() }

// Dropped implements [stream.Delivery].
func (n *notice) Dropped(reason mcp.DropReason) {
	if n.about != nil {
		reason = n.about.noticeReason(reason)
	}
	n.core.dropNotification(n.about, n.Method, reason)
	if n.done != nil {
		n.done()
	}
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

// An exchangeEnd is the delivery of a mark that ends the exchange of a request.
type exchangeEnd struct {
	of   *Request
	over chan error // how that has gone; capacity 1
}

// Claim implements [stream.Delivery].
func (e *exchangeEnd) Claim() bool { return true }

// Sent implements [stream.Delivery]. The mark is not stored: the stream cannot be resumed.
func (e *exchangeEnd) Sent() { e.over <- stream.ErrNotResumable }

// Stored implements [stream.Delivery].
func (e *exchangeEnd) Stored() { e.over <- nil }

// Dropped implements [stream.Delivery].
func (e *exchangeEnd) Dropped(reason mcp.DropReason) { e.over <- stream.SendError(reason) }

// Refused implements [stream.Notice].
func (e *exchangeEnd) Refused(_ context.Context, failed mcp.DropReason, _ bool) (mcp.DropReason, error) {
	switch {
	case e.of.verdict.outcome() != open:
		return mcp.DropAfterResponse, mcp.ErrRequestDone
	case failed != "":
		return failed, stream.SendError(failed)
	}
	return "", nil
}
