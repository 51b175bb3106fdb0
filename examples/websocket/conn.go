package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/vitrine-mcp/vitrine/transport"
)

// subprotocol is what client and server agree on in the WebSocket handshake.
const subprotocol = "mcp"

// A conn carries each frame as one text message of a WebSocket. It is a transport.Conn.
//
// A WebSocket has no half-close. A client that closes it reads no more, so that the end is
// transport.ErrPeerClosed and never io.EOF.
type conn struct {
	ws     *websocket.Conn
	remote string
	ctx    context.Context // of all reads and writes; its end closes the socket
	cancel context.CancelFunc
	once   sync.Once
	closed atomic.Bool // on our side
	ended  error       // of the input; only ReadFrame uses it

	mu       sync.Mutex              // guards the rest
	deadline time.Time               // of writes; zero for none
	abort    context.CancelCauseFunc // ends the write that goes on; nil if there is none
	timer    *time.Timer             // calls abort; nil if there is no deadline, or no write
}

// newConn returns the connection over a WebSocket whose handshake is done. remote is the address
// of the peer.
func newConn(ws *websocket.Conn, remote string) *conn {
	ws.SetReadLimit(-1) // ReadFrame has a limit of its own, and skips what is above it
	ctx, cancel := context.WithCancel(context.Background())
	return &conn{ws: ws, remote: remote, ctx: ctx, cancel: cancel}
}

// Describe implements transport.Describer.
func (c *conn) Describe() transport.Info {
	return transport.Info{Name: "websocket", Network: "tcp", Protocol: "websocket", ProtocolVersion: "13", RemoteAddr: c.remote}
}

// ReadFrame implements transport.Conn.
func (c *conn) ReadFrame(limit int) ([]byte, error) {
	if c.ended != nil {
		return nil, c.ended
	}
	kind, message, err := c.ws.Reader(c.ctx)
	if err != nil {
		return nil, c.end(err)
	}
	if kind != websocket.MessageText {
		c.ended = errors.New("websocket: a binary message, want text")
		return nil, c.ended
	}
	frame, err := io.ReadAll(io.LimitReader(message, int64(limit)+1))
	if err == nil && len(frame) > limit {
		if _, err = io.Copy(io.Discard, message); err == nil {
			return nil, transport.ErrFrameTooLarge
		}
	}
	if err != nil {
		return nil, c.end(err)
	}
	return frame, nil
}

// end says how the input has ended, now and in later calls. The library's error is not wrapped:
// it may be io.EOF, which would say that the peer still reads.
func (c *conn) end(err error) error {
	switch websocket.CloseStatus(err) {
	case websocket.StatusNormalClosure, websocket.StatusGoingAway, websocket.StatusNoStatusRcvd:
		c.ended = fmt.Errorf("%w: %v", transport.ErrPeerClosed, err)
	default:
		c.ended = fmt.Errorf("websocket: read: %v", err)
	}
	return c.ended
}

// WriteFrame implements transport.Conn.
func (c *conn) WriteFrame(frame []byte) error {
	ctx, abort := context.WithCancelCause(c.ctx)
	defer abort(nil)
	c.writing(abort)
	defer c.writing(nil)
	err := c.ws.Write(ctx, websocket.MessageText, frame)
	switch {
	case err == nil:
		return nil
	case c.closed.Load():
		return fmt.Errorf("%w: %v", transport.ErrClosed, err)
	case errors.Is(context.Cause(ctx), transport.ErrWriteTimeout):
		return fmt.Errorf("%w: %v", transport.ErrWriteTimeout, err)
	}
	return fmt.Errorf("%w: %v", transport.ErrPeerGone, err)
}

// writing notes the write that goes on; nil says that it has ended.
func (c *conn) writing(abort context.CancelCauseFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.abort = abort
	c.arm()
}

// SetWriteDeadline implements transport.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	c.arm()
	return nil
}

// arm makes the deadline end the write that goes on. The caller must hold c.mu.
func (c *conn) arm() {
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	if abort := c.abort; abort != nil && !c.deadline.IsZero() {
		c.timer = time.AfterFunc(time.Until(c.deadline), func() { abort(transport.ErrWriteTimeout) })
	}
}

// closePatience is how long Close waits for the peer to take leave.
var closePatience = time.Second

// Close implements transport.Conn.
func (c *conn) Close() error {
	c.once.Do(func() {
		c.closed.Store(true)
		done := make(chan struct{})
		go func() { // ends soon after cancel
			defer close(done)
			_ = c.ws.Close(websocket.StatusNormalClosure, "")
		}()
		timer := time.NewTimer(closePatience)
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
		}
		c.cancel()
	})
	return nil
}
