//go:build unix

package redistest_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/vitrine-mcp/vitrine/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A client of a server stays usable while that ends and starts again, is frozen and thawed.
func TestServerStartsAgainAndFreezes(t *testing.T) {
	server := redistest.Start(t, "internal/redistest")
	client := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1})
	defer client.Close()
	require.NoError(t, client.Ping(t.Context()).Err())
	for _, end := range []func(){server.Stop, server.Kill} {
		end()
		require.Error(t, client.Ping(t.Context()).Err())
		server.Start()
		require.NoError(t, client.Ping(t.Context()).Err())
	}
	server.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorContains(t, client.Ping(ctx).Err(), "timeout")
	server.Thaw()
	require.NoError(t, client.Ping(t.Context()).Err())
	require.Contains(t, server.Log(), "eady to accept connections")
}

// echo returns the address of a server that sends back each line.
func echo(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for lines := bufio.NewScanner(conn); lines.Scan(); {
					fmt.Fprintln(conn, lines.Text())
				}
			}()
		}
	}()
	return l.Addr().String()
}

func TestProxyBreaksConnections(t *testing.T) {
	proxy := redistest.StartProxy(t, echo(t))
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", proxy.Addr())
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	send := func(conn net.Conn, wait time.Duration) error {
		fmt.Fprintln(conn, "hello")
		if wait > 0 {
			require.NoError(t, conn.SetReadDeadline(time.Now().Add(wait)))
			defer func() { require.NoError(t, conn.SetReadDeadline(time.Time{})) }()
		}
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err == nil {
			require.Equal(t, "hello\n", line)
		}
		return err
	}
	conn := dial()
	require.NoError(t, send(conn, 0))
	require.Equal(t, 1, proxy.Dialed())

	proxy.Freeze()
	require.ErrorContains(t, send(conn, 50*time.Millisecond), "timeout")
	proxy.Heal()
	_, err := bufio.NewReader(conn).ReadString('\n') // what came meanwhile
	require.NoError(t, err)

	proxy.FreezeAnswers()
	require.ErrorContains(t, send(conn, 50*time.Millisecond), "timeout")
	proxy.Heal()
	_, err = bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)

	proxy.Slow(20 * time.Millisecond)
	began := time.Now()
	require.NoError(t, send(conn, 0))
	require.GreaterOrEqual(t, time.Since(began), 40*time.Millisecond)
	proxy.Heal()

	proxy.Drop()
	require.Error(t, send(conn, 0))
	conn = dial()
	require.NoError(t, send(conn, 0))

	proxy.Cut()
	require.Error(t, send(conn, 0))
	require.Error(t, send(dial(), 0))
	proxy.Heal()
	require.NoError(t, send(dial(), 0))

	proxy.AwaitDialed(3)

	proxy.Freeze() // the end of the test ends frozen connections
	fmt.Fprintln(dial(), "hello")
}
