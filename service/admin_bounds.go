package service

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/internal/streamable"
	"github.com/vitrine-mcp/vitrine/server"
)

// adminBounds is the outermost handler of the admin listener. It bounds clients that do not read
// their answers or do not send their bodies.
type adminBounds struct {
	next http.Handler
	// takesBody reports whether the handler of a request may read a body. nil: no handler does.
	takesBody func(*http.Request) bool

	limits  server.Limits
	reached func(limit string) // counts that a limit was reached
	working atomic.Int64       // requests in flight that count for MaxAdminRequests
}

// ServeHTTP implements http.Handler.
func (b *adminBounds) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff") // pages show what clients have sent
	out := newBoundedWriter(w, r, b.limits.WriteTimeout, takesLong(r.URL.Path), b.reached)
	b.serve(out, r)
	out.finish()
}

func (b *adminBounds) serve(out *boundedWriter, r *http.Request) {
	if streamable.HeaderLines(r.Header) > b.limits.MaxHeaders {
		b.reached(limits.NameHeaders)
		r.Header = http.Header{} // the request lives until its answer is read
		out.Header().Set("Connection", "close")
		plain(out, http.StatusRequestHeaderFieldsTooLarge, fmt.Sprintf("the header has more than %d lines: %s is reached",
			b.limits.MaxHeaders, limits.NameHeaders))
		return
	}
	switch {
	case r.ContentLength == 0:
	case b.takesBody != nil && b.takesBody(r):
		streamable.BoundTrailers(r, b.limits.MaxHeaders)
		boundBody(out.ResponseWriter, r, b.limits.MaxFrameBytes, b.limits.BodyTimeout)
	default:
		// net/http reads the rest of a body before it answers. No handler has read it, so the
		// deadline does not look like a disconnect to a handler.
		_ = http.NewResponseController(out).SetReadDeadline(time.Now().Add(b.limits.BodyTimeout))
		plain(out, http.StatusRequestEntityTooLarge, "nothing here takes a body")
		return
	}
	if !boundElsewhere(r.URL.Path) {
		defer b.working.Add(-1)
		if b.working.Add(1) > int64(b.limits.MaxAdminRequests) {
			b.reached(limits.NameAdminRequests)
			out.Header().Set("Retry-After", "1")
			plain(out, http.StatusServiceUnavailable, fmt.Sprintf("too many requests at the same time: %s allows %d",
				limits.NameAdminRequests, b.limits.MaxAdminRequests))
			return
		}
	}
	b.next.ServeHTTP(out, r)
}

// boundElsewhere reports whether a path does not count for MaxAdminRequests. An orchestrator kills
// a process whose probes are refused. Scrapes and live streams have their own limits.
func boundElsewhere(path string) bool {
	switch path {
	case pathLive, pathReady, pathMetrics, pathDebugLive:
		return true
	}
	return false
}

// takesLong reports whether an answer may take long, to make or to send. Then each piece of it has
// the time that other answers have as a whole.
func takesLong(path string) bool {
	return strings.HasPrefix(path, pathProfiles) || strings.HasPrefix(path, flightPath+"/")
}

const (
	// boundedPiece is the size of a piece of a long answer, in bytes.
	boundedPiece = 64 << 10
	// shortAnswer is a size in bytes up to which net/http sends an answer at once, with its
	// length, when the handler has returned.
	shortAnswer = 4 << 10
)

// A boundedWriter sets a deadline for an answer, which begins with its first byte. If it is rolling,
// each piece has a deadline, and the handler may wait between two pieces. Deadlines that the handler sets have precedence.
type boundedWriter struct {
	report.Writer
	timeout time.Duration
	rolling bool
	http2   bool // a deadline that passes resets the answer, also while nothing is written
	reached func(limit string)

	begun bool // a deadline was set
	own   bool // the handler sets deadlines
	late  bool // a missed deadline was counted
}

func newBoundedWriter(w http.ResponseWriter, r *http.Request, timeout time.Duration, rolling bool, reached func(limit string)) *boundedWriter {
	out := &boundedWriter{Writer: report.Writer{ResponseWriter: w}, timeout: timeout, rolling: rolling, http2: r.ProtoMajor >= 2, reached: reached}
	if out.http2 {
		out.noDeadline() // the server's would end an answer that begins late, such as a profile
	}
	return out
}

// Write implements io.Writer.
func (w *boundedWriter) Write(p []byte) (n int, err error) {
	for {
		piece := p[n:]
		if w.rolling {
			piece = piece[:min(len(piece), boundedPiece)]
		}
		w.bound()
		m, err := w.Writer.Write(piece)
		n += m
		w.written()
		if err != nil || n == len(p) {
			return n, err
		}
	}
}

// FlushError is for [http.ResponseController].
func (w *boundedWriter) FlushError() error {
	w.bound()
	defer w.written()
	return w.Writer.FlushError()
}

// SetWriteDeadline is for [http.ResponseController].
func (w *boundedWriter) SetWriteDeadline(t time.Time) error {
	w.own = true
	return http.NewResponseController(w.ResponseWriter).SetWriteDeadline(t)
}

// bound sets the deadline of what is written next.
func (w *boundedWriter) bound() {
	if w.own || w.begun && !w.rolling {
		return
	}
	w.begun = true
	w.deadline()
}

func (w *boundedWriter) deadline() {
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(w.timeout)) // not every writer supports deadlines
}

// written is called when the handler goes on.
func (w *boundedWriter) written() {
	w.countLate()
	if w.rolling && w.http2 && !w.own {
		w.noDeadline()
	}
}

func (w *boundedWriter) noDeadline() {
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Time{})
}

// countLate counts an answer that was not read in time, once.
func (w *boundedWriter) countLate() {
	if !w.own && !w.late && errors.Is(w.Err, os.ErrDeadlineExceeded) {
		w.late = true
		w.reached(limits.NameWriteTimeout)
	}
}

// finish sets a deadline for the rest of the answer, which net/http writes after the handler.
func (w *boundedWriter) finish() {
	w.deadline()
	if w.Size > shortAnswer {
		_ = w.Writer.FlushError() // net/http would not report the error
		w.countLate()
	}
}

// boundBody bounds the size of a body and the time in which it must arrive, for handlers of the
// program. The deadline ends with the body, because net/http then waits for a disconnect.
func boundBody(w http.ResponseWriter, r *http.Request, size int, timeout time.Duration) {
	if r.ContentLength == 0 {
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(timeout)) // not every writer supports deadlines
	r.Body = http.MaxBytesReader(w, r.Body, int64(size))
}
