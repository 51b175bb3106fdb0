package redisstore_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/store/redisstore"
)

// A deadlineConn notes the times until which its reads may last.
type deadlineConn struct {
	net.Conn
	mu        *sync.Mutex
	deadlines *[]time.Time
}

func (c deadlineConn) SetReadDeadline(at time.Time) error { return c.SetDeadline(at) }

func (c deadlineConn) SetDeadline(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !at.IsZero() {
		*c.deadlines = append(*c.deadlines, at)
	}
	return c.Conn.SetDeadline(at)
}

// serveSubscriptions confirms what a client subscribes to, and says OK to everything else.
func serveSubscriptions(conn net.Conn) {
	in := bufio.NewScanner(conn)
	word := func() string { // after its length
		in.Scan()
		in.Scan()
		return in.Text()
	}
	for in.Scan() {
		var words []string
		var n int
		_, _ = fmt.Sscanf(in.Text(), "*%d", &n)
		for range n {
			words = append(words, word())
		}
		switch strings.ToLower(words[0]) {
		case "hello":
			fmt.Fprint(conn, "-ERR unknown command\r\n")
		case "subscribe":
			fmt.Fprintf(conn, "*3\r\n$9\r\nsubscribe\r\n$%d\r\n%s\r\n:1\r\n", len(words[1]), words[1])
		default:
			fmt.Fprint(conn, "+OK\r\n")
		}
	}
}

// The end of the context ends Listen, also while the server confirms nothing.
func TestListenEndsWithItsContext(t *testing.T) {
	asked := make(chan struct{})
	client := redis.NewClient(&redis.Options{
		Protocol: 2, ReadTimeout: time.Hour, WriteTimeout: time.Hour, ContextTimeoutEnabled: true, DisableIdentity: true,
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() {
				in := bufio.NewScanner(theirs)
				for in.Scan() {
					switch strings.ToLower(in.Text()) {
					case "hello":
						fmt.Fprint(theirs, "-ERR unknown command\r\n")
					case "subscribe":
						close(asked)
					}
				}
			}()
			return ours, nil
		},
	})
	defer client.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	err := redisstore.New(client, "p:").Listen(ctx, []string{"x"}, func(string, []byte) {}, func() {})
	require.ErrorIs(t, err, context.Canceled)
}

// Listen waits for a confirmation as long as the client waits for other answers.
func TestListenUsesTheReadTimeout(t *testing.T) {
	var mu sync.Mutex
	var deadlines []time.Time
	client := redis.NewClient(&redis.Options{
		Protocol: 2, ReadTimeout: time.Hour, WriteTimeout: time.Hour, ContextTimeoutEnabled: true, DisableIdentity: true,
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go serveSubscriptions(theirs)
			return deadlineConn{ours, &mu, &deadlines}, nil
		},
	})
	defer client.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	require.NoError(t, redisstore.New(client, "p:").Listen(ctx, []string{"x"}, func(string, []byte) {}, func() {}))
	mu.Lock()
	defer mu.Unlock()
	require.NotEmpty(t, deadlines)
	for _, at := range deadlines {
		require.Greater(t, time.Until(at), 30*time.Minute)
	}
}
