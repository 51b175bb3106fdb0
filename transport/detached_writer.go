package transport

import (
	"bytes"
	"os"
	"sync"
	"time"
)

// A detachedWriter gives deadlines to a file that has none, such as a terminal: nothing wakes a
// blocked write to it. It writes on goroutines of their own. One of them may stay until the process
// ends. Write must not be called by two goroutines at once; the other methods are safe for concurrent
// use.
type detachedWriter struct {
	out    *os.File
	closed chan struct{}
	broken error // of a write that was given up: what was written is not known

	mu       sync.Mutex // guards the rest
	deadline time.Time
	changed  chan struct{} // closed when the deadline changes
}

func detachWrites(out *os.File) *detachedWriter {
	return &detachedWriter{out: out, closed: make(chan struct{}), changed: make(chan struct{})}
}

// Write implements io.Writer.
func (w *detachedWriter) Write(p []byte) (int, error) {
	if w.broken != nil {
		return 0, w.broken
	}
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	own := bytes.Clone(p) // the caller may use p again before the write ends
	go func() {
		n, err := w.out.Write(own)
		done <- result{n, err}
	}()
	for {
		deadline, changed := w.current()
		var late <-chan time.Time
		if !deadline.IsZero() {
			timer := time.NewTimer(time.Until(deadline))
			defer timer.Stop() // the deadline changes once or twice
			late = timer.C
		}
		select {
		case r := <-done:
			return r.n, r.err
		case <-changed:
			continue
		case <-late:
			w.broken = os.ErrDeadlineExceeded
		case <-w.closed:
			w.broken = os.ErrClosed
		}
		return 0, w.broken
	}
}

// SetWriteDeadline sets the deadline of the write in progress and of later ones.
func (w *detachedWriter) SetWriteDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline = t
	close(w.changed)
	w.changed = make(chan struct{})
	return nil
}

func (w *detachedWriter) current() (deadline time.Time, changed <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.deadline, w.changed
}

// Close ends the write in progress and closes the file. It must be called once.
func (w *detachedWriter) Close() error {
	close(w.closed)
	return w.out.Close()
}
