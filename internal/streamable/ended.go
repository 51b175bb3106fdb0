package streamable

import (
	"context"
	"errors"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/resume"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// ended reports the end of the event stream of a POST, or that its peer has left before the answer was
// written. failed is why the stream has failed, or "".
func (x *exchange) ended(sink *httpSink, failed mcp.DropReason) {
	e := x.end(failed)
	subscription := x.in != nil && x.in.Method == mcp.MethodSubscriptionsListen
	switch {
	case sink.answered && subscription: // the server has ended it
		switch {
		case x.conn.Expired():
			e.Reason = session.StreamTokenExpired
		case e.Request != nil && e.Request.End() == mcp.EndOperator:
			e.Reason = session.StreamOperator
		case e.Reason != session.StreamShutdown:
			e.Reason = session.StreamDone
		}
	case sink.answered:
		e.Reason = session.StreamDone
	case e.Reason == "" && sink.events: // the handler has closed the stream, so that its client polls
		e.Reason = session.StreamDone
	}
	if sink.events {
		e.Kind = session.StreamAnswer
		if subscription {
			e.Kind = session.StreamSubscription
		}
	} else if e.Reason != session.StreamPeerLeft {
		return
	}
	if x.in != nil && x.in.Era == mcp.Legacy {
		e.Session = x.visited
	}
	x.core.ExchangeEnded(e)
}

// readerEnded reports the end of a stream that a client reads with GET. err is that of its header or of Pump. It must be
// called before the session lets go of the stream.
func (x *exchange) readerEnded(kind string, s *session.Session, until context.Context, reader pumper, err error) {
	st, standing := reader.(*stream.Stream)
	if r, resumed := reader.(*resume.Reader); resumed {
		st = r.Stream()
	}
	failed := reader.ExchangeFailure()
	if w := (*stream.WriteError)(nil); failed == "" && errors.As(err, &w) && w.Reason != mcp.DropStreamGone {
		failed = w.Reason // the stream does not know the exchange yet
	}
	e := x.end(failed)
	e.Kind, e.Session = kind, s
	switch {
	case s.TakeClosed(st):
		e.Reason = session.StreamOperator
	case context.Cause(until) == session.ErrTokenExpired:
		e.Reason = session.StreamTokenExpired
	case e.Reason != "":
	case s.Closing():
		e.Reason = session.StreamSessionEnded
	case errors.Is(err, resume.ErrEventsMissing):
		e.Reason = session.StreamFailed
	case standing, err != nil: // another connection reads the stream
		e.Reason = session.StreamReplaced
	default:
		e.Reason = session.StreamDone
	}
	x.core.ExchangeEnded(e)
}

// end describes the end of the exchange. Its reason is "" if the server has ended it in order.
func (x *exchange) end(failed mcp.DropReason) *session.ExchangeEnd {
	e := &session.ExchangeEnd{Conn: x.conn, Header: x.r.Header, Age: time.Since(x.began)}
	if x.in != nil {
		e.Request = x.in.Request()
	}
	switch {
	case failed == mcp.DropWriteTimeout, failed == mcp.DropOverload:
		e.Reason = session.StreamEndOf(failed)
	case x.core.Draining():
		e.Reason = session.StreamShutdown
	case x.r.Context().Err() != nil:
		e.Reason = session.StreamPeerLeft
	case failed != "":
		e.Reason = session.StreamEndOf(failed)
	}
	return e
}
