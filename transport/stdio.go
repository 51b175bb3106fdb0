package transport

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Stdio returns the [Conn] over standard input and output (specification: "stdio"). Until it is
// closed, the program must not write to os.Stdout. On Unix such output goes to standard error
// instead, so that it cannot corrupt the protocol. Close restores standard output. Stdio returns
// an error if another such Conn is open in the process, or if the standard files cannot be used.
// Nothing wakes a blocked read of a terminal. Close does not end such a read, and the next Conn gets
// its bytes.
func Stdio() (Conn, error) {
	if !stdioTaken.CompareAndSwap(false, true) {
		return nil, errors.New("transport: standard input and output are in use by another connection of this process")
	}
	std, err := takeStdio()
	if err != nil {
		stdioTaken.Store(false)
		return nil, err
	}
	return Lines(std), nil
}

// stdioTaken is true while there is an open [Conn] over the standard files.
var stdioTaken atomic.Bool

// stdio is a Pipe over two files.
type stdio struct {
	out    *os.File
	reads  io.ReadCloser // Close ends a blocked read
	writes stdioWriter   // to out
	// restore restores the standard files. It changes the mode of descriptors that a read or a
	// write may still use, so that the last user calls it.
	restore func()

	mu     sync.Mutex // guards the rest
	users  int        // reads and writes in progress
	closed bool
}

// A stdioWriter has deadlines, and Close ends a blocked write.
type stdioWriter interface {
	io.WriteCloser
	SetWriteDeadline(t time.Time) error
}

// enter begins a read or a write. It returns false after Close.
func (s *stdio) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.users++
	return true
}

func (s *stdio) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users--
	s.giveBack()
}

// giveBack restores the standard files if they are closed and unused. The caller must hold s.mu.
func (s *stdio) giveBack() {
	if s.closed && s.users == 0 {
		s.restore()
		stdioTaken.Store(false)
	}
}

func (s *stdio) Read(p []byte) (int, error) {
	if !s.enter() {
		return 0, os.ErrClosed
	}
	defer s.leave()
	return s.reads.Read(p)
}

func (s *stdio) Write(p []byte) (int, error) {
	if !s.enter() {
		return 0, os.ErrClosed
	}
	defer s.leave()
	return s.writes.Write(p)
}

// Close closes both directions. Blocked reads and writes return.
func (s *stdio) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	s.writes.Close()
	s.reads.Close()
	s.giveBack()
	return nil
}

func (s *stdio) SetWriteDeadline(t time.Time) error { return s.writes.SetWriteDeadline(t) }

// Describe implements [Describer].
func (*stdio) Describe() Info { return Info{Name: "stdio", Network: "pipe"} }
