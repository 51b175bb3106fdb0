package report

import (
	"io"
	"net"
	"net/http"
)

// A Writer passes an answer on, and records its status, its size and the first error. It is not safe
// for concurrent use.
type Writer struct {
	http.ResponseWriter
	// Status is the status of the answer, or 0 before its header.
	Status int
	// Size is the number of bytes of its body.
	Size int
	// Err is the first error of a write or a flush.
	Err error
	// Body takes the body of an answer with the status 200, instead of the client. nil: the
	// client gets it.
	Body io.Writer
}

// Unwrap is for [http.ResponseController].
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (w *Writer) WriteHeader(status int) {
	if w.Status == 0 {
		w.Status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [io.Writer].
func (w *Writer) Write(p []byte) (n int, err error) {
	if w.Status == 0 {
		w.Status = http.StatusOK
	}
	to := io.Writer(w.ResponseWriter)
	if w.Body != nil && w.Status == http.StatusOK {
		to = w.Body
	}
	n, err = to.Write(p)
	w.Size += n
	w.saw(err)
	return n, err
}

// FlushError is for [http.ResponseController].
func (w *Writer) FlushError() error {
	err := http.NewResponseController(w.ResponseWriter).Flush()
	w.saw(err)
	return err
}

func (w *Writer) saw(err error) {
	if w.Err == nil {
		w.Err = err
	}
}

// Host returns an address without its port.
func Host(addr string) string {
	if host, _, err := net.SplitHostPort(addr); err == nil {
		return host
	}
	return addr
}
