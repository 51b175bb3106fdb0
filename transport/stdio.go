package transport

import (
	"context"
	"io"
	"os"
	"sync"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/session"
)

// StdioConn describes the connection over standard input and output.
var StdioConn = session.Conn{Transport: "stdio", Network: "pipe"}

// ServeStdio serves the peer on standard input and output (specification:
// "stdio"). While it runs, os.Stdout must not be written to: on Unix, whatever
// the process still prints there goes to standard error instead, so that it
// cannot corrupt the protocol. At most one call may run in a process. It returns
// as [ServePipe] does.
func ServeStdio(ctx context.Context, core *session.Core) error {
	std, err := takeStdio()
	if err != nil {
		return err
	}
	defer std.restore()
	return ServePipe(ctx, core, &StdioConn, std)
}

// stdio is a Pipe over two files.
type stdio struct {
	in, out *os.File
	// abandonRead is set where closing the input does not wake a blocked read; one
	// reading goroutine is then left behind at the end of the process.
	abandonRead bool
	reads       io.Reader
	restore     func()
	once        sync.Once
}

func (s *stdio) Read(p []byte) (int, error)  { return s.reads.Read(p) }
func (s *stdio) Write(p []byte) (int, error) { return s.out.Write(p) }

// Close closes both files. Blocked reads and writes return.
func (s *stdio) Close() error {
	s.once.Do(func() {
		s.out.Close()
		if p, ok := s.reads.(*io.PipeReader); ok {
			p.Close()
		}
		if !s.abandonRead {
			s.in.Close()
		}
	})
	return nil
}

func (s *stdio) SetWriteDeadline(t time.Time) error { return s.out.SetWriteDeadline(t) }

// detachReads moves the reading to a goroutine of its own, for an input whose
// blocked read nothing can wake. It is the one goroutine that may be left behind
// when the process ends.
func (s *stdio) detachReads() {
	r, w := io.Pipe()
	s.abandonRead, s.reads = true, r
	go func() {
		_, err := io.Copy(w, s.in)
		w.CloseWithError(err)
	}()
}
