package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry"
	"github.com/vitrine-mcp/vitrine/transport"
)

// A pigeonConn is a transport of a user's own: it has none of the optional methods but
// Describe, and a test decides how its reads and writes end.
type pigeonConn struct {
	in     chan string
	out    chan string
	closed chan struct{}
	once   sync.Once

	mu       sync.Mutex
	readEnd  error // what follows the last frame in
	writeEnd error // what writes return; nil while they succeed
	silent   bool  // the peer does not read
	deadline *time.Timer
	late     chan struct{}
}

func newPigeonConn() *pigeonConn {
	return &pigeonConn{in: make(chan string), out: make(chan string, 100), closed: make(chan struct{}), late: make(chan struct{})}
}

func (c *pigeonConn) Describe() transport.Info {
	return transport.Info{Name: "pigeon", RemoteAddr: "loft:1"}
}

func (c *pigeonConn) ReadFrame(limit int) ([]byte, error) {
	select {
	case frame, ok := <-c.in:
		c.mu.Lock()
		defer c.mu.Unlock()
		switch {
		case !ok:
			return nil, c.readEnd
		case len(frame) > limit:
			return nil, transport.ErrFrameTooLarge
		}
		return []byte(frame), nil
	case <-c.closed:
		return nil, transport.ErrClosed
	}
}

func (c *pigeonConn) WriteFrame(frame []byte) error {
	c.mu.Lock()
	err, silent := c.writeEnd, c.silent
	c.mu.Unlock()
	if err != nil {
		return err
	}
	if silent {
		select {
		case <-c.late:
			return transport.ErrWriteTimeout
		case <-c.closed:
			return transport.ErrClosed
		}
	}
	c.out <- string(frame)
	return nil
}

func (c *pigeonConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.silent && c.deadline == nil {
		c.deadline = time.AfterFunc(time.Until(t), func() { close(c.late) })
	}
	return nil
}

func (c *pigeonConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

// end ends the input with an error.
func (c *pigeonConn) end(err error) {
	c.mu.Lock()
	c.readEnd = err
	c.mu.Unlock()
	close(c.in)
}

// breakWrites makes all writes fail with an error.
func (c *pigeonConn) breakWrites(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writeEnd = err
}

// Events of a user's connection decide on the cause with which a running handler is cancelled,
// and on the fate of its answer.
func TestServeConn(t *testing.T) {
	for _, tt := range []struct {
		name  string
		does  func(c *pigeonConn) // what happens while a tool runs
		cause error
		after time.Duration     // how long the handler was left alone
		drop  mcp.DropReason    // of its answer; "" if it is sent
		logs  map[string]string // of the record write.unclassified; nil if there is none
	}{
		{name: "the client cancels", does: func(c *pigeonConn) { c.in <- cancelled(1) },
			cause: mcp.ErrClientCancelled, drop: mcp.DropCancelled},
		{name: "a read fails", does: func(c *pigeonConn) { c.end(errors.New("a hawk")) },
			cause: mcp.ErrTransportFailed, drop: mcp.DropBrokenPeer},
		{name: "the peer has sent its last frame", does: func(c *pigeonConn) { c.end(io.EOF) },
			cause: mcp.ErrTransportClosed, after: time.Second},
		{name: "the peer has closed", does: func(c *pigeonConn) {
			c.breakWrites(fmt.Errorf("%w: no loft", transport.ErrPeerGone))
			c.end(transport.ErrPeerClosed)
		}, cause: mcp.ErrTransportClosed, drop: mcp.DropBrokenPeer},
		{name: "a write fails, the peer is gone", does: func(c *pigeonConn) {
			c.breakWrites(fmt.Errorf("%w: no loft", transport.ErrPeerGone))
			c.in <- modern(2, "ping", "")
		}, cause: mcp.ErrTransportFailed, drop: mcp.DropBrokenPeer},
		{name: "a write fails, our own end is closed", does: func(c *pigeonConn) {
			c.breakWrites(os.ErrClosed)
			c.in <- modern(2, "ping", "")
		}, cause: mcp.ErrTransportFailed, drop: mcp.DropClosedWriter},
		{name: "a write fails, nobody knows why", does: func(c *pigeonConn) {
			c.breakWrites(errors.New("feathers"))
			c.in <- modern(2, "ping", "")
		}, cause: mcp.ErrTransportFailed, drop: mcp.DropBrokenPeer,
			logs: map[string]string{"transport": "pigeon", "type": "*errors.errorString", "error": "feathers"}},
		{name: "the peer does not read", does: func(c *pigeonConn) {
			c.mu.Lock()
			c.silent = true
			c.mu.Unlock()
			c.in <- modern(2, "ping", "")
		}, cause: mcp.ErrTransportFailed, after: 30 * time.Second, drop: mcp.DropWriteTimeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				logs := &logRecorder{}
				srv, tel, causes := waitingServer(t, logs)
				conn := newPigeonConn()
				served := make(chan error, 1)
				go func() { served <- srv.ServeConn(context.Background(), conn) }()
				conn.in <- modern(1, "tools/call", call("wait", `{}`))
				time.Sleep(10 * time.Millisecond) // nobody waits for a quick answer any more
				begin := time.Now()
				tt.does(conn)
				require.ErrorIs(t, <-causes, tt.cause)
				require.Equal(t, tt.after, time.Since(begin).Round(10*time.Millisecond))
				if tt.drop == mcp.DropCancelled { // the connection goes on
					conn.in <- modern(2, "ping", "")
					require.Contains(t, <-conn.out, `"id":2`)
					conn.end(io.EOF)
				}
				require.NoError(t, <-served)
				<-conn.closed
				sent := len(conn.out) > 0 && strings.Contains(<-conn.out, `"id":1`)
				require.Equal(t, tt.drop == "", sent)
				dropped := func(reason mcp.DropReason) string {
					return fmt.Sprintf(`vitrine_responses_dropped_total{method="tools/call",reason=%q,tool="wait"} `, reason)
				}
				text := scrape(t, tel)
				for _, reason := range mcp.ResponseDropReasons() {
					require.Equal(t, reason == tt.drop, strings.Contains(text, dropped(reason)+"1"), "%s", reason)
				}
				if records := logs.find("write.unclassified"); tt.logs == nil {
					require.Empty(t, records)
				} else {
					require.Len(t, records, 1)
					for key, value := range tt.logs {
						require.Equal(t, value, records[0].attrs[key])
					}
				}
				require.NoError(t, srv.Shutdown(context.Background()))
				require.NoError(t, tel.Shutdown(context.Background()))
			})
		})
	}
}

// waitingServer returns a server with the tool wait, which waits until its context ends, and
// says why it did.
func waitingServer(t *testing.T, logs slog.Handler) (*server.Server, *telemetry.Telemetry, chan error) {
	t.Helper()
	tel, err := telemetry.New()
	require.NoError(t, err)
	causes := make(chan error, 1)
	srv := newServer(t, server.WithTelemetry(tel), server.WithLogger(slog.New(logs)))
	server.AddTool(srv, server.Tool{Name: "wait"}, func(ctx context.Context, _ *server.Call, _ none) (string, error) {
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return "", nil
	})
	return srv, tel, causes
}

// A frame above the limit is answered, and the connection goes on. Logs have the transport's own
// name, and metrics one label for all transports of users.
func TestServeConnBoundsAndNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs := &logRecorder{}
		srv, tel, _ := waitingServer(t, logs)
		require.NoError(t, srv.SetLimits(server.Limits{MaxFrameBytes: 4096}))
		conn := newPigeonConn()
		served := make(chan error, 1)
		go func() { served <- srv.ServeConn(context.Background(), conn) }()
		conn.in <- strings.Repeat("x", 5000)
		require.JSONEq(t, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"the message is larger than max_frame_bytes"}}`, <-conn.out)
		conn.in <- modern(1, "ping", "")
		require.Contains(t, <-conn.out, `"id":1`)
		synctest.Wait()
		text := scrape(t, tel)
		require.Contains(t, text, `vitrine_sessions_active{transport="_OTHER"} 1`)
		require.NotContains(t, text, "pigeon")
		require.Contains(t, text, `vitrine_write_seconds{transport="_OTHER"}`)
		conn.end(io.EOF)
		require.NoError(t, <-served)
		require.Equal(t, "pigeon", logs.find("session.eof")[0].attrs["session"])
		require.NoError(t, srv.Shutdown(context.Background()))
		require.NoError(t, tel.Shutdown(context.Background()))
	})
}
