package transport

import (
	"bufio"
	"context"
	"errors"
	"io"
	"time"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Pipe is a byte stream in both directions, one message on a line
// (specification: "stdio"). Close must wake a blocked Read and a blocked Write.
type Pipe interface {
	io.Reader
	io.Writer
	io.Closer
	// SetWriteDeadline bounds writes, also one that blocks already. A pipe that
	// cannot do that returns an error, and writes are then not bounded.
	SetWriteDeadline(time.Time) error
}

// ServePipe serves the peer at the other end of a pipe until it has sent its last
// byte and been answered, the connection breaks, ctx is cancelled, or the core
// shuts down. It closes the pipe, and nothing of it writes to the pipe when it returns,
// unless Close does not wake a blocked Write. The error is nil after an orderly end,
// and otherwise names the handlers that were abandoned.
func ServePipe(ctx context.Context, core *session.Core, conn *session.Conn, pipe Pipe) error {
	of, refused := *conn, (*mcp.Refusal)(nil)
	if of.Principal, refused = core.Authenticate(ctx, auth.Caller{Transport: conn.Transport, RemoteAddr: conn.RemoteAddr}); refused != nil {
		pipe.Close()
		return refused
	}
	s := core.Connect(&of, &lineSink{pipe: pipe, buf: bufio.NewWriterSize(pipe, 32<<10)})
	stop := context.AfterFunc(ctx, func() { s.Finish(mcp.CauseServerShutdown) })
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		<-s.Done()
		pipe.Close()
	}()
	readLines(core, s, pipe, session.Inbound{Conn: &of, Values: ctx})
	<-s.Done()
	if !stop() {
		<-s.Done() // Finish runs; the session is closed already
	}
	<-closed
	s.AwaitWriter()
	return s.Abandoned()
}

// readLines feeds the session until the input ends. from is what all messages have in common.
func readLines(core *session.Core, s *session.Session, in io.Reader, from session.Inbound) {
	limits := core.Limits().Wire()
	lines := newLineReader(in, limits.MaxBytes)
	for {
		line, err := lines.next()
		switch {
		case errors.Is(err, errLineTooLong):
			s.Malformed(&wire.Error{
				Code: mcp.CodeInvalidRequest, Reason: wire.ReasonTooLarge,
				Message: "the message is larger than " + session.LimitFrameBytes,
			})
		case len(line) > 0:
			receive(s, line, limits, from, errors.Is(err, io.EOF))
		}
		switch {
		case err == nil || errors.Is(err, errLineTooLong):
		case errors.Is(err, io.EOF):
			if p, ok := in.(deafPeer); ok && p.PeerGone() {
				s.Fail(errPeerDeaf)
				return
			}
			s.EOF()
			return
		default:
			select {
			case <-s.Done(): // we closed the pipe ourselves
			default:
				s.Fail(err)
			}
			return
		}
	}
}

// receive decodes one line and hands it to the session. A tail is what came without
// a newline before the end of the input: if it is no message, it was cut off.
func receive(s *session.Session, line []byte, limits wire.Limits, from session.Inbound, tail bool) {
	if wire.IsBatch(line) && s.TakesBatches() {
		members, bad := session.SplitBatch(line, limits, from)
		if bad != nil {
			malformed(s, bad, tail)
			return
		}
		s.ReceiveBatch(members)
		return
	}
	env, err := wire.Decode(line, limits)
	if bad := (*wire.Error)(nil); errors.As(err, &bad) {
		malformed(s, bad, tail)
		return
	}
	in := new(from)
	in.Envelope, in.Bytes = env, len(line)
	if env.Meta.HasProtocolVersion {
		in.Era = mcp.Modern
		in.Version = mcp.Version(env.Meta.ProtocolVersion)
		in.Refusal = env.CheckModernMeta()
	}
	s.Receive(in)
}

func malformed(s *session.Session, bad *wire.Error, tail bool) {
	if tail {
		s.MalformedTail(bad)
	} else {
		s.Malformed(bad)
	}
}

// deafPeer is a pipe that can tell, without a write, that nobody reads its other
// end any more. Then the end of the input is not a half-close.
type deafPeer interface{ PeerGone() bool }

var errPeerDeaf = errors.New("transport: nobody reads our output")

// lineSink writes one message on a line.
type lineSink struct {
	pipe Pipe
	buf  *bufio.Writer
}

func (k *lineSink) Write(m *session.Message) error {
	for _, part := range [...][]byte{m.Frame, m.Rest} {
		if _, err := k.buf.Write(part); err != nil {
			return writeError(err, false)
		}
	}
	return writeError(k.buf.WriteByte('\n'), false)
}

func (k *lineSink) Flush() error { return writeError(k.buf.Flush(), false) }

func (k *lineSink) SetWriteDeadline(t time.Time) { _ = k.pipe.SetWriteDeadline(t) }

var errLineTooLong = errors.New("transport: line too long")

// A lineReader cuts its input into lines of bounded length. Each line has its own
// memory, since the message that it holds lives on.
type lineReader struct {
	in  *bufio.Reader
	max int
}

func newLineReader(in io.Reader, limit int) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(in, 32<<10), max: limit}
}

// next returns the next line without its end. A last line without a newline comes
// together with io.EOF. A line that is too long is discarded to its end.
func (r *lineReader) next() ([]byte, error) {
	var line []byte
	for {
		part, err := r.in.ReadSlice('\n')
		if len(line)+len(part) > r.max+len("\r\n") { // what is left after trimming, the codec bounds
			return nil, r.discard(err)
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return trimLine(line), err
		}
	}
}

// discard reads to the end of an overlong line.
func (r *lineReader) discard(err error) error {
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = r.in.ReadSlice('\n')
	}
	return errors.Join(errLineTooLong, err)
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
