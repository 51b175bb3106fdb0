//go:build unix

package transport_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/transport"
)

// Errors as the operating system returns them.
func TestClassifyErrorsOfTheKernel(t *testing.T) {
	frame := []byte("frame\n")
	large := make([]byte, 1<<20) // more than a pipe holds
	for _, tt := range []struct {
		name  string
		write func(t *testing.T) error
		is    error // what the error is known to be, so that the test is about the right thing
		want  mcp.DropReason
	}{
		{"os.Pipe, reader gone", func(t *testing.T) error {
			r, w := osPipe(t)
			r.Close()
			_, err := w.Write(frame)
			return err
		}, syscall.EPIPE, mcp.DropBrokenPeer},
		{"os.Pipe, own end closed", func(t *testing.T) error {
			_, w := osPipe(t)
			w.Close()
			_, err := w.Write(frame)
			return err
		}, os.ErrClosed, mcp.DropClosedWriter},
		{"os.Pipe, own end closed while blocked", func(t *testing.T) error {
			r, w := osPipe(t)
			go func() {
				_, _ = r.Read(make([]byte, 1)) // the write has begun
				w.Close()
			}()
			_, err := w.Write(large)
			return err
		}, os.ErrClosed, mcp.DropClosedWriter},
		{"os.Pipe, deadline", func(t *testing.T) error {
			_, w := osPipe(t)
			require.NoError(t, w.SetWriteDeadline(time.Unix(1, 0)))
			_, err := w.Write(frame)
			return err
		}, os.ErrDeadlineExceeded, mcp.DropWriteTimeout},
		{"TCP, after a reset, first write", func(t *testing.T) error {
			c := tcpAfterReset(t)
			_, err := c.Write(frame)
			return err
		}, syscall.ECONNRESET, mcp.DropBrokenPeer},
		{"TCP, after a reset, second write", func(t *testing.T) error {
			c := tcpAfterReset(t)
			_, _ = c.Write(frame)
			_, err := c.Write(frame)
			return err
		}, syscall.EPIPE, mcp.DropBrokenPeer},
		{"TCP, own end closed", func(t *testing.T) error {
			c, _ := tcpPair(t)
			c.Close()
			_, err := c.Write(frame)
			return err
		}, net.ErrClosed, mcp.DropClosedWriter},
		{"TCP, deadline", func(t *testing.T) error {
			c, _ := tcpPair(t)
			require.NoError(t, c.SetWriteDeadline(time.Unix(1, 0)))
			_, err := c.Write(frame)
			return err
		}, os.ErrDeadlineExceeded, mcp.DropWriteTimeout},
		{"TCP, half-closed by the peer: writes go on", func(t *testing.T) error {
			c, peer := tcpPair(t)
			require.NoError(t, peer.CloseWrite())
			_, err := c.Read(make([]byte, 1))
			require.ErrorIs(t, err, io.EOF)
			_, err = c.Write(frame)
			return err
		}, nil, ""},
		{"net.Pipe, either end closed", func(*testing.T) error {
			a, b := net.Pipe()
			b.Close()
			_, err := a.Write(frame)
			return err
		}, io.ErrClosedPipe, mcp.DropBrokenPeer},
		{"net.Pipe, deadline", func(*testing.T) error {
			a, _ := net.Pipe()
			_ = a.SetWriteDeadline(time.Unix(1, 0))
			_, err := a.Write(frame)
			return err
		}, os.ErrDeadlineExceeded, mcp.DropWriteTimeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.write(t)
			require.ErrorIs(t, err, tt.is)
			if tt.is == nil {
				require.NoError(t, err)
				return
			}
			for _, err := range []error{err, fmt.Errorf("wrapped: %w", err)} {
				class, known := transport.Classify(err)
				require.Equal(t, tt.want, class)
				require.True(t, known)
			}
		})
	}
}

// The rest of the table of Classify: a class that the transport names comes first.
func TestClassify(t *testing.T) {
	for _, tt := range []struct {
		err     error
		want    mcp.DropReason
		unknown bool
	}{
		{fmt.Errorf("%w: %w", transport.ErrClosed, io.ErrClosedPipe), mcp.DropClosedWriter, false},
		{fmt.Errorf("%w: %w", transport.ErrPeerGone, net.ErrClosed), mcp.DropBrokenPeer, false},
		{fmt.Errorf("%w: %w", transport.ErrWriteTimeout, context.Canceled), mcp.DropWriteTimeout, false},
		{transport.ErrPeerClosed, mcp.DropBrokenPeer, false},
		{context.Canceled, mcp.DropBrokenPeer, false},
		{http.ErrServerClosed, mcp.DropClosedWriter, false},
		{http.ErrHandlerTimeout, mcp.DropClosedWriter, false},
		{http.ErrBodyReadAfterClose, mcp.DropClosedWriter, false},
		{http.ErrHijacked, mcp.DropClosedWriter, false},
		{syscall.EBADF, mcp.DropClosedWriter, false},
		{syscall.ECONNABORTED, mcp.DropBrokenPeer, false},
		{syscall.ENOTCONN, mcp.DropBrokenPeer, false},
		{syscall.ESHUTDOWN, mcp.DropBrokenPeer, false},
		{syscall.ETIMEDOUT, mcp.DropWriteTimeout, false},
		{io.EOF, mcp.DropBrokenPeer, false},
		{io.ErrUnexpectedEOF, mcp.DropBrokenPeer, false},
		{io.ErrShortWrite, mcp.DropBrokenPeer, false},
		{&net.DNSError{IsTimeout: true}, mcp.DropWriteTimeout, false},
		{errors.New("http2: stream closed"), mcp.DropBrokenPeer, true},
	} {
		class, known := transport.Classify(tt.err)
		require.Equal(t, tt.want, class, "%v", tt.err)
		require.Equal(t, !tt.unknown, known, "%v", tt.err)
	}
}

func osPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// tcpPair returns the two ends of a TCP connection.
func tcpPair(t *testing.T) (ours, peer *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	p, err := l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { c.Close(); p.Close() })
	return c.(*net.TCPConn), p.(*net.TCPConn)
}

// tcpAfterReset returns a connection whose peer has reset it. The error stays with
// the socket until it is read or written.
func tcpAfterReset(t *testing.T) *net.TCPConn {
	t.Helper()
	c, peer := tcpPair(t)
	require.NoError(t, peer.SetLinger(0))
	require.NoError(t, peer.Close())
	waitForHangUp(t, c)
	return c
}

// waitForHangUp waits until the kernel has seen the peer's reset, without taking
// the error that is waiting.
func waitForHangUp(t *testing.T, c *net.TCPConn) {
	t.Helper()
	raw, err := c.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		for {
			_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
			if !errors.Is(err, unix.EINTR) {
				return
			}
		}
	}))
}
