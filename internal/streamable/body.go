package streamable

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// smallBody is the size up to which a body has its buffer at once and does not
// count towards the bytes that are being read.
const smallBody = 64 << 10

// slowBody is the time from which on a body has come slowly. A [http.Server] with a WriteTimeout
// counts it from the head of the request on, and the answer may have hardly any of it left.
const slowBody = 10 * time.Millisecond

var errBodyOverload = errors.New("transport: too many bytes of bodies are being read")

// bound gives the body the time it may take to arrive. It holds for refused
// exchanges too: net/http reads what is left of their bodies.
func (x *exchange) bound() {
	if x.r.ContentLength == 0 {
		return
	}
	x.bodyEnd = time.Now().Add(x.core.Limits().BodyTimeout)
	_ = x.rc.SetReadDeadline(x.bodyEnd) // writers without deadlines have servers of their own
}

// body reads the whole body before anything is dispatched: net/http sees a
// disconnect only after the body's end. A body that is too large is a [*wire.Error].
func (x *exchange) body() ([]byte, error) {
	limits := x.core.Limits()
	if x.r.ContentLength > int64(limits.MaxFrameBytes) {
		return nil, tooLarge(limits.MaxFrameBytes)
	}
	body, err := x.read(limits.MaxFrameBytes)
	if err == nil {
		_ = x.r.Body.Close() // or net/http looks for the rest of it before it answers
	}
	if err != nil || x.bodyEnd.IsZero() {
		return body, err // with the deadline in force, for what is left of the body
	}
	// From the body's end on net/http waits for a disconnect, and a deadline would be
	// one. So the deadline goes, and if it may have struck already, there is no dispatch.
	bounded := x.rc.SetReadDeadline(time.Time{}) == nil
	left := time.Until(x.bodyEnd)
	if bounded && left <= 0 {
		return nil, os.ErrDeadlineExceeded
	}
	x.slowBody = limits.BodyTimeout-left > slowBody
	x.bodyEnd = time.Time{}
	return body, nil
}

// read reads a body of at most limit bytes. Its buffer grows with what arrives, not
// with what is announced.
func (x *exchange) read(limit int) (body []byte, err error) {
	size := limit + 1 // one byte more, to know a body that is too large
	if n := x.r.ContentLength; n >= 0 {
		size = int(n)
	}
	reserved := 0
	defer func() {
		if reserved > 0 {
			x.core.ReleaseBody(reserved)
		}
	}()
	body = make([]byte, 0, min(size, smallBody))
	for len(body) < size {
		if len(body) == cap(body) {
			grown := min(size, 2*cap(body))
			if !x.core.ReserveBody(grown - reserved) {
				return nil, errBodyOverload
			}
			reserved = grown
			body = append(make([]byte, 0, grown), body...)
		}
		var n int
		n, err = x.r.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if err != nil {
			break
		}
	}
	switch {
	case len(body) > limit:
		return nil, tooLarge(limit)
	case err == nil:
		_, err = io.Copy(io.Discard, x.r.Body) // to the end of file
	case err == io.EOF && x.r.ContentLength > int64(len(body)):
		err = io.ErrUnexpectedEOF
	case err == io.EOF:
		err = nil
	}
	return body, err
}

func tooLarge(limit int) error {
	return &wire.Error{
		Code: mcp.CodeInvalidRequest, Reason: wire.ReasonTooLarge,
		Message: fmt.Sprintf("the message has more than %d bytes, which is the limit", limit),
	}
}

// refuseBody answers a body that did not arrive.
func (x *exchange) refuseBody(err error) {
	switch {
	case errors.Is(err, errBodyOverload):
		x.w.Header().Set("Retry-After", "1")
		x.w.Header().Set("Connection", "close")
		if x.core.Draining() {
			x.refuse(http.StatusServiceUnavailable, mcp.RefuseShuttingDown, session.ShuttingDown())
			return
		}
		x.refuse(http.StatusTooManyRequests, mcp.RefuseOverload, session.BodyOverload())
	case errors.Is(err, os.ErrDeadlineExceeded):
		x.w.Header().Set("Connection", "close")
		x.refuse(http.StatusRequestTimeout, mcp.RefuseBodyTimeout, mcp.NewError(mcp.CodeInvalidRequest,
			"the body did not arrive in time: %s is reached", limits.NameBodyTimeout).
			WithData(mcp.ErrorData{Limit: limits.NameBodyTimeout}))
	default:
		// Nearly always the peer has gone and nobody hears this, but a body in bad chunks
		// must not be answered with the 200 that net/http sends by itself.
		x.refuse(http.StatusBadRequest, mcp.RefuseBody, mcp.NewError(mcp.CodeParseError, "the body cannot be read"))
	}
}

// refuse answers an exchange that carries no message.
func (x *exchange) refuse(status int, reason mcp.RefuseReason, err *mcp.Error) {
	x.refuseRequest(mcp.ID{}, status, reason, err)
}

// refuseRequest answers an exchange whose message is not looked at. The answer has the
// id of the request.
func (x *exchange) refuseRequest(id mcp.ID, status int, reason mcp.RefuseReason, err *mcp.Error) {
	x.core.RefuseExchange(context.WithoutCancel(x.r.Context()), reason, append(x.sender(), slog.Int("status", status),
		slog.String("error", err.Message), slog.String("host", logline.Printable(x.r.Host, maxShown)))...)
	x.write(status, wire.AppendError(nil, id, err))
}

// refuseCaller answers a caller whom the authenticator does not let in, before anything
// else is read of the exchange. For all that it could carry the status says enough.
func (x *exchange) refuseCaller(r *mcp.Refusal) {
	describeRefusal(x.w.Header(), r)
	x.refuse(int(r.Code()), mcp.RefuseAuthentication, r.RPC())
}

// maxShown is how much of what a client says in a header is shown, in bytes: as much as
// a name and a port can have.
const maxShown = 260

// sender says in the log who has sent the request.
func (x *exchange) sender() []slog.Attr {
	return []slog.Attr{
		slog.String("remote", x.r.RemoteAddr),
		slog.String("agent", logline.Printable(x.r.UserAgent(), maxShown)),
	}
}

// plain reports whether the body is not encoded.
func plain(h http.Header) bool {
	for _, v := range h.Values("Content-Encoding") {
		for coding := range strings.SplitSeq(v, ",") {
			if coding = strings.TrimSpace(coding); coding != "" && !strings.EqualFold(coding, "identity") {
				return false
			}
		}
	}
	return true
}
