package transporttest_test

import (
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/vitrine-mcp/vitrine/transport"
	"github.com/vitrine-mcp/vitrine/transport/transporttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPipeInMemory(t *testing.T) {
	transporttest.Run(t, func(*testing.T) (transport.Conn, transporttest.Peer) {
		ours, theirs := transport.Memory()
		return transport.Lines(ours), transporttest.Peer{Conn: transport.Lines(theirs)}
	})
}

func TestTCP(t *testing.T) {
	transporttest.Run(t, func(t *testing.T) (transport.Conn, transporttest.Peer) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer l.Close()
		theirs, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		ours, err := l.Accept()
		require.NoError(t, err)
		return transport.Lines(ours), transporttest.Peer{Conn: transport.Lines(theirs), HalfClose: theirs.(*net.TCPConn).CloseWrite}
	})
}

// A filePipe is a pipe of two files, as standard input and output are.
type filePipe struct {
	io.Reader
	in, out *os.File
}

func (p filePipe) Write(b []byte) (int, error)        { return p.out.Write(b) }
func (p filePipe) SetWriteDeadline(t time.Time) error { return p.out.SetWriteDeadline(t) }

func (p filePipe) Close() error {
	p.in.Close()
	return p.out.Close()
}

func TestPipesOfTheSystem(t *testing.T) {
	transporttest.Run(t, func(t *testing.T) (transport.Conn, transporttest.Peer) {
		in, theirOut, err := os.Pipe()
		require.NoError(t, err)
		theirIn, out, err := os.Pipe()
		require.NoError(t, err)
		return transport.Lines(filePipe{in, in, out}),
			transporttest.Peer{Conn: transport.Lines(filePipe{theirIn, theirIn, theirOut}), HalfClose: theirOut.Close}
	})
}
