package transport_test

import (
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/transport"
	"github.com/vitrine-mcp/vitrine/transport/transporttest"
)

// A clientOfStdio is the end of two pipes that a client has which has started the server.
type clientOfStdio struct {
	io.Reader
	in, out *os.File
}

func (p clientOfStdio) Write(b []byte) (int, error)        { return p.out.Write(b) }
func (p clientOfStdio) SetWriteDeadline(t time.Time) error { return p.out.SetWriteDeadline(t) }

// Close waits for nothing: the server may close its end afterwards.
func (p clientOfStdio) Close() error {
	p.out.Close()
	return p.in.Close()
}

// Standard input and output keep the promises of a connection, also if reads cannot be woken.
func TestStdioKeepsItsPromises(t *testing.T) {
	for name, open := range map[string]func(in, out *os.File) transport.Conn{
		"pipes": transport.StdioOf, "no polling": transport.StdioThatCannotPoll,
	} {
		t.Run(name, func(t *testing.T) {
			transporttest.Run(t, func(t *testing.T) (transport.Conn, transporttest.Peer) {
				in, theirOut, err := os.Pipe()
				require.NoError(t, err)
				theirIn, out, err := os.Pipe()
				require.NoError(t, err)
				peer := transport.Lines(clientOfStdio{theirIn, theirIn, theirOut})
				return open(in, out), transporttest.Peer{Conn: peer, HalfClose: theirOut.Close}
			})
		})
	}
}
