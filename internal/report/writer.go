package report

import (
	"io"
	"net"
	"net/http"
)

// A Writer passes an answer on, and remembers what has become of it. It is for one goroutine.
type Writer struct {
	http.ResponseWriter
	// Status is that of the answer; 0 until it has begun.
	Status int
	// Size is how many bytes of its body were written.
	Size int
	// Err is the first error of a write or a flush.
	Err error
	// Body, if not nil, is written the body of an answer without an error, instead of the
	// client.
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

// Host takes the port off an address.
func Host(addr string) string {
	if host, _, err := net.SplitHostPort(addr); err == nil {
		return host
	}
	return addr
}
