package streamable

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/stream"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/transport"
)

// An httpSink writes the messages of one exchange. It decides late: an answer that comes
// first is plain JSON with a status of its own; a message before the answer turns the
// response into an event stream. A client that takes no JSON gets a success as an event
// stream.
type httpSink struct {
	endpoint *Endpoint
	w        http.ResponseWriter
	rc       *http.ResponseController
	lost     context.Context // the request's: done when the peer is gone
	era      mcp.Era
	opened   *session.Session // a new session, whose id is sent with a successful initialize; or nil
	json     bool             // the client takes JSON
	streams  bool             // the client takes an event stream, and w can flush
	http2    bool

	started  bool // the status line is decided
	events   bool
	ok       bool // the answer was a result
	sent     bool // and was flushed
	answer   bool // the last message was an answer
	answered bool // and was flushed
	written  int  // bytes since the last flush, about
	deadline bool // a write deadline was set

	// values are the values of headers. They are fields to save allocations. Responses must
	// not share them, because a handler around the endpoint may change them in place.
	values [3]string
}

func (k *httpSink) Write(m *stream.Message) error {
	status := k.status(m)
	k.answer = m.Kind == stream.Answer
	k.written += m.Size()
	if m.Kind != stream.Answer || k.events || !k.json && status == http.StatusOK {
		return k.event(m)
	}
	k.start(m)
	k.ok = m.Err == nil
	k.set(0, "Content-Type", "application/json")
	k.set(1, "Content-Length", strconv.Itoa(m.Size()))
	k.w.WriteHeader(status)
	_, err := k.w.Write(m.Frame)
	if err == nil && len(m.Rest) > 0 {
		_, err = k.w.Write(m.Rest)
	}
	return k.failed(err)
}

// set sets a header, whose name must be in its canonical form. The slice has no spare
// capacity, so that an append to it makes a new one. The plain version is http.Header.Set, which
// allocates a slice for each header.
func (k *httpSink) set(i int, name, value string) {
	k.values[i] = value
	k.w.Header()[name] = k.values[i : i+1 : i+1]
}

// event writes one message of an event stream.
func (k *httpSink) event(m *stream.Message) error {
	k.stream(m)
	k.ok = m.Kind == stream.Answer && m.Err == nil
	room, large := len(m.EventID)+64, m.Size() > stream.LargeFrame
	if !large {
		room += m.Size()
	}
	buf := make([]byte, 0, room)
	if m.Kind != stream.Mark {
		buf = append(buf, "event: message\n"...)
	}
	if m.EventID != "" {
		buf = append(append(append(buf, "id: "...), m.EventID...), '\n')
	}
	if m.Retry > 0 {
		buf = append(strconv.AppendInt(append(buf, "retry: "...), max(m.Retry.Milliseconds(), 1), 10), '\n')
	}
	buf = append(buf, "data: "...)
	if large { // a copy would double what a slow reader holds
		for _, part := range [][]byte{buf, m.Frame, m.Rest} {
			if _, err := k.w.Write(part); err != nil {
				return k.failed(err)
			}
		}
		buf = buf[:0]
	} else {
		buf = append(append(buf, m.Frame...), m.Rest...)
	}
	_, err := k.w.Write(append(buf, "\n\n"...))
	return k.failed(err)
}

// stream makes the response an event stream, unless it has begun.
func (k *httpSink) stream(m *stream.Message) {
	if k.started {
		return
	}
	k.start(m)
	k.events = true
	k.set(0, "Content-Type", "text/event-stream")
	k.set(1, "Cache-Control", "no-cache")
	k.set(2, "X-Accel-Buffering", "no")
	k.w.WriteHeader(http.StatusOK)
}

// open begins an event stream before there is a message.
func (k *httpSink) open() error {
	k.stream(&stream.Message{Kind: stream.Notification})
	return k.Flush()
}

// KeepAlive writes a comment. If the response has not begun it becomes an event stream. For
// a client that takes no event stream KeepAlive does nothing.
func (k *httpSink) KeepAlive() error {
	if !k.streams {
		return nil
	}
	k.stream(&stream.Message{Kind: stream.Notification})
	if _, err := k.w.Write([]byte(":\n\n")); err != nil {
		return k.failed(err)
	}
	return k.Flush()
}

// start sets the headers that every response has.
func (k *httpSink) start(m *stream.Message) {
	k.started = true
	h := k.w.Header()
	if k.opened != nil && m.Err == nil {
		if id := k.opened.HandOut(); id != "" { // "": the session has just ended
			h.Set(headerSessionID, id)
		}
	}
	if k.endpoint.core.Leaving() {
		h.Set("Connection", "close") // ask the client to reconnect elsewhere
	}
	if refusal, ok := refusalOf(m.Err); ok {
		describeRefusal(h, refusal)
	}
	if m.Reject == mcp.RejectOverload || m.Reject == mcp.RejectShuttingDown || isOverload(m.Err) {
		h.Set("Retry-After", "1")
	}
}

func (k *httpSink) Flush() error {
	err := k.rc.Flush()
	if errors.Is(err, http.ErrNotSupported) {
		k.endpoint.unflushable(k.w)
		if !k.events {
			err = nil // the answer is sent when the exchange ends, which is now
		}
	}
	k.sent, k.answered = k.ok && err == nil, k.answer && err == nil
	written := k.written
	k.written = 0
	if err == nil {
		return nil
	}
	err = k.failed(err)
	if w := (*stream.WriteError)(nil); errors.As(err, &w) {
		w.Unconfirmed = w.Reason == mcp.DropBrokenPeer && written >= minHandedOver
	}
	return err
}

// minHandedOver is how much net/http may have handed to the operating system before a flush, in bytes. Of less
// it has kept all in its buffers, of 2 and 4 KiB. What it still has of more may be only the end of a chunk.
const minHandedOver = 2 << 10

// failed classifies an error. The errors of HTTP/2 for a stream that the peer has closed have
// no type. Then the request's context tells.
func (k *httpSink) failed(err error) error {
	if err == nil {
		return nil
	}
	class, known := transport.Classify(err)
	if !known && k.lost.Err() == nil {
		return err // the core logs it with its type
	}
	return &stream.WriteError{Reason: class, Err: err}
}

// Gone implements stream.Watcher.
func (k *httpSink) Gone() context.Context { return k.lost }

// ResetsWhenIdle implements [stream.IdleResetter]: over HTTP/2 net/http resets a response when its write deadline passes.
func (k *httpSink) ResetsWhenIdle() bool { return k.http2 }

// EventStream implements stream.EventStreamer.
func (k *httpSink) EventStream() bool { return k.events }

func (k *httpSink) SetWriteDeadline(t time.Time) {
	k.deadline = k.rc.SetWriteDeadline(t) == nil || k.deadline
}

// done removes the write deadline from the connection, which may serve other exchanges next.
func (k *httpSink) done() {
	if k.deadline {
		_ = k.rc.SetWriteDeadline(time.Time{})
	}
}

// refusalOf returns the refusal that became an error.
func refusalOf(err *mcp.Error) (*mcp.Refusal, bool) {
	if err == nil {
		return nil, false
	}
	return mcp.AsRefusal(err)
}

// describeRefusal sets the headers of a refusal.
func describeRefusal(h http.Header, r *mcp.Refusal) {
	if after := r.RetryAfterSeconds(); after > 0 {
		h.Set("Retry-After", strconv.Itoa(after))
	}
	if r.Challenge != "" {
		h.Set("WWW-Authenticate", r.Challenge)
	}
}

// rejectStatus returns the HTTP status of a rejected request. An overload is not 503, although
// RFC 9110 suggests it: a proxy that looks at statuses takes a replica that answers 503 out of
// service. That is right for a replica that drains. For a full one it would overload the
// other replicas.
func rejectStatus(reason mcp.RejectReason) int {
	switch reason {
	case mcp.RejectSessionUnknown:
		return http.StatusNotFound
	case mcp.RejectTooLarge:
		return http.StatusRequestEntityTooLarge
	case mcp.RejectOverload:
		return http.StatusTooManyRequests
	case mcp.RejectShuttingDown:
		return http.StatusServiceUnavailable
	}
	return http.StatusBadRequest // duplicate_id, not_initialized, parse_error
}

// isOverload reports whether an error, which may be nil, says that a limit has left no room for a request that had begun.
func isOverload(err *mcp.Error) bool {
	if err == nil {
		return false
	}
	data, _ := err.Data.(mcp.ErrorData)
	return data.Reason == string(mcp.RejectOverload)
}

// status returns the HTTP status of an answer. In the legacy era an error has the status 200;
// in the modern era the status follows from the error's code.
func (k *httpSink) status(m *stream.Message) int {
	if refusal, ok := refusalOf(m.Err); ok {
		return int(refusal.Code())
	}
	if m.Reject != "" {
		return rejectStatus(m.Reject)
	}
	if isOverload(m.Err) {
		return rejectStatus(mcp.RejectOverload)
	}
	if m.Err == nil || k.era == mcp.Legacy {
		return http.StatusOK
	}
	switch m.Err.Code {
	case mcp.CodeMethodNotFound:
		return http.StatusNotFound
	case mcp.CodeParseError, mcp.CodeInvalidRequest, mcp.CodeInvalidParams, mcp.CodeHeaderMismatch,
		mcp.CodeMissingRequiredCapability, mcp.CodeUnsupportedVersion:
		return http.StatusBadRequest
	}
	return http.StatusOK
}
