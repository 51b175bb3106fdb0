package transport

import (
	"os"
	"sync"
)

// A detachedReader reads a file whose blocked read nothing wakes, such as a terminal. Each read has a goroutine of its
// own. A connection that is closed does not wait for it, and the next connection gets what it reads. The last one may
// stay until the process ends.
type detachedReader struct {
	in *os.File

	mu      sync.Mutex    // guards the rest
	reading chan struct{} // closed when the read in progress has returned; nil if there is none
	buf     []byte
	unread  []byte // what no connection has taken yet, in buf
	err     error  // of the last read, until a connection takes it
}

// take returns what was read, or the end of the read for which a connection must wait.
func (r *detachedReader) take(p []byte) (n int, reading <-chan struct{}, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case len(r.unread) > 0:
		n = copy(p, r.unread)
		r.unread = r.unread[n:]
		return n, nil, nil
	case r.err != nil:
		err, r.err = r.err, nil
		return 0, nil, err
	case r.reading == nil:
		r.reading = make(chan struct{})
		go r.read()
	}
	return 0, r.reading, nil
}

func (r *detachedReader) read() {
	n, err := r.in.Read(r.buf)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unread, r.err = r.buf[:n], err
	close(r.reading)
	r.reading = nil
}

// detachReads returns the reading side of a connection over standard input.
func detachReads(in *os.File) *detachedReads {
	lastDetached.Lock()
	defer lastDetached.Unlock()
	if r := lastDetached.reader; r == nil || !sameFile(r.in, in) {
		lastDetached.reader = &detachedReader{in: in, buf: make([]byte, bufferBytes)}
	}
	return &detachedReads{of: lastDetached.reader, closed: make(chan struct{})}
}

// lastDetached has the reader of the latest connection.
var lastDetached struct {
	sync.Mutex
	reader *detachedReader
}

// sameFile reports whether two descriptors are of one file, which may have been closed.
func sameFile(a, b *os.File) bool {
	if a == b {
		return true
	}
	infoA, errA := a.Stat()
	infoB, errB := b.Stat()
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// detachedReads is the reading side of one connection. Close must be called once.
type detachedReads struct {
	of     *detachedReader
	closed chan struct{}
}

// Read implements io.Reader.
func (d *detachedReads) Read(p []byte) (int, error) {
	for {
		select {
		case <-d.closed: // what has come meanwhile is for the next connection
			return 0, os.ErrClosed
		default:
		}
		n, reading, err := d.of.take(p)
		if reading == nil {
			return n, err
		}
		select {
		case <-reading:
		case <-d.closed:
		}
	}
}

// Close ends the read in progress of this connection. That of the file goes on.
func (d *detachedReads) Close() error {
	close(d.closed)
	return nil
}
