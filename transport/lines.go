package transport

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// A Pipe is a byte stream in both directions, such as a net.Conn. Close must wake a blocked
// Read and a blocked Write.
type Pipe interface {
	io.Reader
	io.Writer
	io.Closer
	// SetWriteDeadline bounds writes, also one that blocks already. A pipe that
	// cannot do that returns an error, and writes are then not bounded.
	SetWriteDeadline(time.Time) error
}

// bufferBytes is the size of the buffer in each direction of a pipe.
const bufferBytes = 32 << 10

// Lines returns a [Conn] that carries one frame on a line of a pipe, as on standard input and
// output (specification: "stdio"). It skips blank lines, and takes blanks off both ends of the
// others. Writes are buffered: it is a [Flusher].
//
// A pipe that is a net.Conn over TCP is described with its remote address. The pipe may have two
// more methods: Describe, as in [Describer], and PeerGone() bool, which is called when the input
// has ended. True means that nobody reads the output either, so that the end is an error and not
// a half-close.
func Lines(pipe Pipe) Conn {
	c := &lines{pipe: pipe, in: lineReader{in: bufio.NewReaderSize(pipe, bufferBytes)}, out: bufio.NewWriterSize(pipe, bufferBytes)}
	c.peer, _ = pipe.(interface{ PeerGone() bool })
	return c
}

type lines struct {
	pipe   Pipe
	peer   interface{ PeerGone() bool } // or nil
	in     lineReader
	out    *bufio.Writer
	closed atomic.Bool
}

// Describe implements [Describer].
func (c *lines) Describe() Info {
	if d, ok := c.pipe.(Describer); ok {
		return d.Describe()
	}
	info := Info{Name: "memory", Network: "pipe"}
	if conn, ok := c.pipe.(net.Conn); ok {
		if addr, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
			info.Network, info.RemoteAddr = "tcp", addr.String()
		}
	}
	return info
}

var errNoReader = fmt.Errorf("%w: nobody reads our output", ErrPeerGone)

// ReadFrame implements [Conn].
func (c *lines) ReadFrame(limit int) ([]byte, error) {
	for {
		line, err := c.in.next(limit)
		if errors.Is(err, io.EOF) && c.peer != nil && c.peer.PeerGone() {
			err = errNoReader
		}
		if len(line) > 0 || err != nil {
			return line, err
		}
	}
}

// WriteFrame implements [Conn].
func (c *lines) WriteFrame(frame []byte) error { return c.WriteParts(frame, nil) }

// WriteParts implements [PartsWriter].
func (c *lines) WriteParts(head, tail []byte) error {
	_, err := c.out.Write(head)
	if err == nil && len(tail) > 0 {
		_, err = c.out.Write(tail)
	}
	if err == nil {
		err = c.out.WriteByte('\n')
	}
	return c.failed(err)
}

// Flush implements [Flusher].
func (c *lines) Flush() error { return c.failed(c.out.Flush()) }

// failed adds [ErrClosed] to an error after Close. The error of a pipe in memory does not tell
// which end was closed.
func (c *lines) failed(err error) error {
	if err != nil && c.closed.Load() {
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return err
}

// SetWriteDeadline implements [Conn].
func (c *lines) SetWriteDeadline(t time.Time) error { return c.pipe.SetWriteDeadline(t) }

// Close implements [Conn].
func (c *lines) Close() error {
	c.closed.Store(true)
	return c.pipe.Close()
}

// A lineReader cuts its input into lines of bounded length. Each line has its own memory,
// because the session keeps messages.
type lineReader struct {
	in  *bufio.Reader
	end error // of the input
}

// next returns the next line without its end. A last line without a newline comes
// together with the error of the input's end. A line that is too long is discarded to its end.
func (r *lineReader) next(limit int) ([]byte, error) {
	if r.end != nil {
		return nil, r.end
	}
	var line []byte
	for {
		part, err := r.in.ReadSlice('\n')
		if len(line)+len(part) > limit+len("\r\n") { // the codec checks the trimmed line again
			r.discard(err)
			return nil, ErrFrameTooLarge
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			r.end = err
			return trimLine(line), err
		}
	}
}

// discard reads to the end of an overlong line.
func (r *lineReader) discard(err error) {
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = r.in.ReadSlice('\n')
	}
	r.end = err
}

// trimLine takes away the line's end and surrounding blanks.
func trimLine(line []byte) []byte {
	for len(line) > 0 && isBlank(line[len(line)-1]) {
		line = line[:len(line)-1]
	}
	for len(line) > 0 && isBlank(line[0]) {
		line = line[1:]
	}
	return line
}

func isBlank(c byte) bool { return c == '\n' || c == '\r' || c == ' ' || c == '\t' }
