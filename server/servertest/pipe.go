package servertest

import (
	"errors"
	"net"
	"time"

	"github.com/vitrine-mcp/vitrine/transport"
)

// An end is one end of a byte stream in memory, each direction of which ends by itself: a
// client that hangs up sends no more and still reads what the server has to say.
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

// CloseWrite ends what is sent. The other end reads to the end of it.
func (e *end) CloseWrite() error { return e.out.Close() }

// Close implements [transport.Pipe].
func (e *end) Close() error { return errors.Join(e.out.Close(), e.in.Close()) }
