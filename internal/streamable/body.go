package streamable

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/share"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// smallBody is the size in bytes up to which a body gets its buffer at once.
const smallBody = 64 << 10

// slowAfter is the time after which a body counts as slow. The WriteTimeout of a [http.Server]
// starts with the head of the request, so that little of it may be left for the answer.
const slowAfter = 10 * time.Millisecond

var errBodyOverload = errors.New("transport: too many bytes of bodies are being read")

// bound sets the time within which the body must arrive. It holds for refused exchanges
// too, because net/http reads the rest of their bodies.
func (x *exchange) bound() {
	x.began = time.Now()
	if x.r.ContentLength == 0 {
		return
	}
	x.bodyEnd = x.began.Add(x.core.Limits().BodyTimeout)
	_ = x.rc.SetReadDeadline(x.bodyEnd) // a writer without deadlines belongs to a server that bounds bodies itself
}

// body reads the whole body before anything is dispatched, because net/http notices a
// disconnect only after the body's end. The error for a body that is too large is a
// [*wire.Error].
func (x *exchange) body() ([]byte, error) {
	limits := x.core.Limits()
	if x.r.ContentLength > int64(limits.MaxFrameBytes) {
		return nil, tooLarge(limits.MaxFrameBytes)
	}
	body, err := x.read(limits.MaxFrameBytes)
	if err == nil {
		_ = x.r.Body.Close() // otherwise net/http reads on before it answers
	}
	if err != nil || x.bodyEnd.IsZero() {
		return body, err // the deadline stays, for the rest of the body
	}
	// After the body's end net/http waits for a disconnect, and takes a deadline for one. So
	// the deadline is removed. If it may have passed before, nothing is dispatched.
	bounded := x.rc.SetReadDeadline(time.Time{}) == nil
	left := time.Until(x.bodyEnd)
	if bounded && left <= 0 {
		return nil, os.ErrDeadlineExceeded
	}
	x.slowBody = limits.BodyTimeout-left > slowAfter
	x.bodyEnd = time.Time{}
	return body, nil
}

// read reads a body of at most limit bytes. Its buffer grows with the bytes that arrive,
// not with the announced length.
func (x *exchange) read(limit int) (body []byte, err error) {
	size := limit + 1 // one byte more, to detect a body that is too large
	if n := x.r.ContentLength; n >= 0 {
		size = int(n)
	}
	for len(body) < size {
		if len(body) == cap(body) {
			if body, err = x.grow(body, size); err != nil {
				return nil, err
			}
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

// grow returns a body with room for more, but no more than size bytes in all. If the length is announced, its rooms are that
// length divided by powers of four, the first of at most smallBody; else each is twice the one before. It sets the memory aside first.
func (x *exchange) grow(body []byte, size int) ([]byte, error) {
	room := size
	switch {
	case x.r.ContentLength >= 0:
		for most := max(smallBody, 4*cap(body)); room > most; {
			room = (room + 3) / 4
		}
	case cap(body) > 0: // nobody knows how much comes
		room = min(size, 2*cap(body))
	default:
		room = min(size, session.FreeBody)
	}
	if room > session.FreeBody {
		if x.held == nil {
			x.held = x.core.NewBody(x.conn)
		}
		if !x.held.Grow(x.header + room) {
			return nil, errBodyOverload
		}
	}
	return append(make([]byte, 0, room), body...), nil
}

func tooLarge(limit int) error {
	return &wire.Error{
		Code: mcp.CodeInvalidRequest, Reason: wire.ReasonTooLarge,
		Message: fmt.Sprintf("the message has more than %d bytes, which is the limit", limit),
	}
}

// refuseBody refuses an exchange whose body did not arrive, or has had no turn to be decoded.
func (x *exchange) refuseBody(err error) {
	switch {
	case errors.Is(err, share.ErrNoTurn):
		x.w.Header().Set("Retry-After", "1")
		x.refuse(http.StatusTooManyRequests, mcp.RefuseOverload, session.Overload(limits.NameTurns))
	case errors.Is(err, errTooManyTrailers):
		x.refuseHeaders("the header and the trailer have")
	case errors.Is(err, errBodyOverload):
		x.w.Header().Set("Retry-After", "1")
		x.w.Header().Set("Connection", "close")
		if x.core.Draining() {
			x.refuse(http.StatusServiceUnavailable, mcp.RefuseShuttingDown, session.ShuttingDown())
			return
		}
		x.refuse(http.StatusTooManyRequests, mcp.RefuseOverload, session.Overload(limits.NameBodyBytes))
	case errors.Is(err, os.ErrDeadlineExceeded):
		x.w.Header().Set("Connection", "close")
		x.refuse(http.StatusRequestTimeout, mcp.RefuseBodyTimeout, invalid("the body did not arrive in time: %s is reached",
			limits.NameBodyTimeout).WithData(mcp.ErrorData{Limit: limits.NameBodyTimeout}))
	default:
		// Nearly always the peer has gone and nobody reads this. But for a body in bad chunks
		// net/http would send a response with status 200 by itself.
		x.refuse(http.StatusBadRequest, mcp.RefuseBody, mcp.NewError(mcp.CodeParseError, "the body cannot be read"))
	}
}
