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
	"github.com/vitrine-mcp/vitrine/server"
)

// adminBounds is the outermost handler of the admin listener. A client that asks for much and
// reads nothing, or announces a body and sends none, holds no more than these bounds.
type adminBounds struct {
	next http.Handler
	// takesBody reports whether a request is for a handler that may read a body; nil is for none.
	takesBody func(*http.Request) bool

	limits  server.Limits
	reached func(limit string) // counts that a limit was reached
	working atomic.Int64       // requests that count towards MaxAdminRequests
}

// ServeHTTP implements http.Handler.
func (b *adminBounds) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out := newBoundedWriter(w, b.limits.WriteTimeout, takesLong(r.URL.Path), b.reached)
	b.serve(out, r)
	out.finish()
}

func (b *adminBounds) serve(out *boundedWriter, r *http.Request) {
	switch {
	case r.ContentLength == 0:
	case b.takesBody != nil && b.takesBody(r):
		boundBody(out.ResponseWriter, r, b.limits.MaxFrameBytes, b.limits.BodyTimeout)
	default:
		// net/http reads what is left of a body before it answers. Nobody here has read it,
		// so that the deadline ends no handler as the client's disconnect.
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

// boundElsewhere reports whether a path does not count towards MaxAdminRequests. The
// orchestrator kills a process whose probes are refused; scrapes, which show that the
// limit was reached, and live streams have limits of their own.
func boundElsewhere(path string) bool {
	switch path {
	case pathLive, pathReady, pathMetrics, pathDebugLive:
		return true
	}
	return false
}

// takesLong reports whether a path answers with what may take long to make, or to fetch
// over a slow line: then each piece has the time that another whole answer has.
func takesLong(path string) bool {
	return strings.HasPrefix(path, pathProfiles) || strings.HasPrefix(path, flightPath+"/")
}

const (
	// boundedPiece is how much of a long answer is written under one deadline.
	boundedPiece = 64 << 10
	// shortAnswer is a size that leaves in one piece, with its length, when the handler has
	// returned.
	shortAnswer = 4 << 10
)

// A boundedWriter gives an answer a time to be read, from its first byte on, or if it is
// rolling each piece. A handler that sets write deadlines of its own has the say.
type boundedWriter struct {
	report.Writer
	timeout time.Duration
	rolling bool
	reached func(limit string)

	begun bool // the whole answer has its deadline
	own   bool // the handler sets deadlines
}

func newBoundedWriter(w http.ResponseWriter, timeout time.Duration, rolling bool, reached func(limit string)) *boundedWriter {
	return &boundedWriter{Writer: report.Writer{ResponseWriter: w}, timeout: timeout, rolling: rolling, reached: reached}
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
		if err != nil || n == len(p) {
			return n, err
		}
	}
}

// FlushError is for [http.ResponseController].
func (w *boundedWriter) FlushError() error {
	w.bound()
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
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(w.timeout)) // not every writer has one
}

// finish bounds the rest of an answer, which net/http writes when the handler has
// returned, and takes the deadline off then. It counts that an answer was not read in time.
func (w *boundedWriter) finish() {
	w.deadline()
	if w.Size > shortAnswer {
		_ = w.Writer.FlushError() // net/http would tell nobody
	}
	if !w.own && errors.Is(w.Err, os.ErrDeadlineExceeded) {
		w.reached(limits.NameWriteTimeout)
	}
}

// boundBody gives the body of a request to a handler of the program's own a time to arrive
// and a size. The time ends with the body: net/http then waits for a disconnect.
func boundBody(w http.ResponseWriter, r *http.Request, size int, timeout time.Duration) {
	if r.ContentLength == 0 {
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(timeout)) // not every writer has one
	r.Body = http.MaxBytesReader(w, r.Body, int64(size))
}
