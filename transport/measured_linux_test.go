package transport_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/transport"
)

// What Linux and net/http do when a peer goes. The core relies on it: an answer is sent
// when its flush has succeeded, never when its Write has, and even that is no proof that
// the peer read it.

// The peer has closed in order. The first write succeeds. The kernel of the peer answers it with
// a reset, so that the second write fails.
func TestMeasuredWriteAfterFIN(t *testing.T) {
	c, peer := tcpPair(t)
	require.NoError(t, peer.Close())
	_, err := c.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	_, err = c.Write([]byte("frame\n"))
	require.NoError(t, err)
	waitForReset(t, c)
	_, err = c.Write([]byte("frame\n"))
	brokenPeer(t, err, syscall.EPIPE)
}

func TestMeasuredReadAfterRST(t *testing.T) {
	_, err := tcpAfterReset(t).Read(make([]byte, 1))
	brokenPeer(t, err, syscall.ECONNRESET)
}

// net/http buffers, so that Write reports nothing. The first flush is the first write to the
// connection, and succeeds.
func TestMeasuredHTTPAfterFIN(t *testing.T) {
	seen, _ := afterPeer(t, func(peer *net.TCPConn) { require.NoError(t, peer.Close()) }, waitForReset)
	require.NoError(t, seen[0].write)
	require.NoError(t, seen[0].flush)
	brokenPeer(t, seen[1].flush, syscall.EPIPE)
}

func TestMeasuredHTTPAfterRST(t *testing.T) {
	seen, _ := afterPeer(t, func(peer *net.TCPConn) {
		require.NoError(t, peer.SetLinger(0))
		require.NoError(t, peer.Close())
	}, nil)
	require.NoError(t, seen[0].write)
	brokenPeer(t, seen[0].flush, syscall.EPIPE)
	brokenPeer(t, seen[1].flush, syscall.EPIPE)
}

// A peer that closes only its output looks as if it had gone, although it still reads.
func TestMeasuredHTTPHalfClose(t *testing.T) {
	seen, peer := afterPeer(t, func(peer *net.TCPConn) { require.NoError(t, peer.CloseWrite()) }, nil)
	for _, s := range seen {
		require.NoError(t, s.write)
		require.NoError(t, s.flush)
	}
	res, err := http.ReadResponse(bufio.NewReader(peer), nil)
	require.NoError(t, err)
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Equal(t, "frame\nframe\n", string(body))
}

// A written is what a handler has seen of a write and its flush.
type written struct{ write, flush error }

// connKey finds the connection in the context of its requests.
type connKey struct{}

// afterPeer serves one request over HTTP/1.1 and lets the peer do something to the
// connection. When the request's context is cancelled, the handler writes and flushes
// twice; between may wait for what the first of them has caused.
func afterPeer(t *testing.T, act func(peer *net.TCPConn), between func(*testing.T, *net.TCPConn)) ([]written, *net.TCPConn) {
	t.Helper()
	running, done := make(chan struct{}), make(chan []written, 1)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(running)
		<-r.Context().Done()
		var seen []written
		for range 2 {
			if len(seen) > 0 && between != nil {
				between(t, r.Context().Value(connKey{}).(*net.TCPConn))
			}
			_, err := io.WriteString(w, "frame\n")
			seen = append(seen, written{err, http.NewResponseController(w).Flush()})
		}
		done <- seen
	}))
	srv.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, c)
	}
	srv.Start()
	t.Cleanup(srv.Close)
	c, err := net.Dial("tcp", srv.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	_, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)
	<-running
	act(c.(*net.TCPConn))
	return <-done, c.(*net.TCPConn)
}

// brokenPeer checks that an error is the one that was measured, and that it is known.
func brokenPeer(t *testing.T, err, want error) {
	t.Helper()
	require.ErrorIs(t, err, want)
	class, known := transport.Classify(err)
	require.Equal(t, mcp.DropBrokenPeer, class)
	require.True(t, known)
}

// waitForReset waits until the kernel has the peer's reset of a connection whose peer
// has closed, without taking the error.
func waitForReset(t *testing.T, c *net.TCPConn) {
	t.Helper()
	raw, err := c.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		for {
			_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd)}}, -1) // only what needs no asking
			if !errors.Is(err, unix.EINTR) {
				return
			}
		}
	}))
}
