package servertest

import (
	"errors"
	"net"
	"time"

	"github.com/vitrine-mcp/vitrine/transport"
)

// An end is one end of a byte stream in memory. Each direction can be closed alone: a client
// that has closed its output still reads the answers of the server.
type end struct {
	in, out net.Conn
}

// newPipe returns the two ends.
func newPipe() (server transport.Pipe, client *end) {
	toServer, fromClient := net.Pipe()
	toClient, fromServer := net.Pipe()
	return &end{in: toServer, out: toClient}, &end{in: fromServer, out: fromClient}
}

// Read implements [transport.Pipe].
func (e *end) Read(p []byte) (int, error) { return e.in.Read(p) }

// Write implements [transport.Pipe].
func (e *end) Write(p []byte) (int, error) { return e.out.Write(p) }

// SetWriteDeadline implements [transport.Pipe].
func (e *end) SetWriteDeadline(t time.Time) error { return e.out.SetWriteDeadline(t) }

// CloseWrite closes the output. The other end can read what was written before.
func (e *end) CloseWrite() error { return e.out.Close() }

// Close implements [transport.Pipe].
func (e *end) Close() error { return errors.Join(e.out.Close(), e.in.Close()) }
