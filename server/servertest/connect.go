package servertest

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// Connect connects a client to srv. When the test ends, the connection is closed, and the
// test waits until the server has finished serving it. A handler that has not returned by
// then, although its context was cancelled, fails the test.
//
// The client speaks the latest protocol revision, without a handshake; see
// [Legacy] for the others. Connect ends the test if the handshake fails.
func Connect(tb testing.TB, srv *server.Server, opts ...Option) *Client {
	tb.Helper()
	serverEnd, clientEnd := newPipe()
	c := &Client{
		cfg: config{
			ctx:     context.Background(),
			version: mcp.LatestVersion,
			client:  mcp.Implementation{Name: "servertest", Version: "1"},
		},
		conn:    clientEnd,
		writing: make(chan struct{}, 1),
		read:    make(chan struct{}),
		served:  make(chan struct{}),
		pending: map[string]chan response{},
	}
	for _, o := range opts {
		o.apply(&c.cfg)
	}
	go func() {
		defer close(c.served)
		c.serveErr = srv.ServePipe(c.cfg.ctx, serverEnd)
	}()
	c.connected, c.disconnect = context.WithCancelCause(context.Background())
	go func() {
		defer close(c.read)
		c.disconnect(fmt.Errorf("%w: %w", mcp.ErrPeerGone, c.readMessages()))
	}()
	tb.Cleanup(func() {
		c.closing.Do(func() {
			if err := c.close(); err != nil {
				tb.Errorf("servertest: close: %v", err)
			}
		})
	})
	if err := c.handshake(); err != nil {
		tb.Fatalf("servertest: initialize: %v", err)
	}
	return c
}

// Close closes the connection and waits until the server has finished serving it. Calls that
// wait for an answer fail at once. Their handlers may go on for the end-of-file grace of
// the server's limits and are then cancelled; the error names those that did not return.
// For the server this is an orderly end, for which it logs no warning. Only the first call
// has an effect.
func (c *Client) Close() (err error) {
	c.closing.Do(func() { err = c.close() })
	return err
}

func (c *Client) close() error {
	c.disconnect(mcp.ErrPeerGone)
	_ = c.conn.CloseWrite() // closing a net.Pipe does not fail
	<-c.read
	c.answering.Wait()
	<-c.served
	return c.serveErr
}

// handshake sends what the protocol revision needs before the first call.
func (c *Client) handshake() error {
	if era, _ := c.cfg.version.Era(); era == mcp.Modern {
		return nil
	}
	_, err := c.Call(context.Background(), mcp.MethodInitialize, mcp.InitializeParams{
		ProtocolVersion: c.cfg.version, ClientInfo: c.cfg.client, Capabilities: c.cfg.capabilities,
	})
	if err != nil {
		return err
	}
	return c.Notify(mcp.NotificationInitialized, nil)
}

// limits are wide enough for everything that the server under test may send.
var limits = wire.Limits{MaxBytes: 1 << 30, MaxDepth: 10_000}

// readMessages reads until the connection ends. Nothing else reads.
func (c *Client) readMessages() error {
	in := bufio.NewReader(c.conn)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return err
		}
		msg, err := wire.Decode(line, limits)
		if err != nil {
			_ = c.conn.Close() // what follows cannot be trusted
			return fmt.Errorf("the server sent %q: %w", line, err)
		}
		switch msg.Kind {
		case wire.Response:
			c.deliver(&msg)
		case wire.Notification:
			c.notified(&msg)
		case wire.Request:
			c.asked(&msg)
		}
	}
}

// deliver passes a response to the call that waits for it, if there is one, or to its
// subscription.
func (c *Client) deliver(msg *wire.Envelope) {
	c.mu.Lock()
	answer := c.pending[msg.ID.Key()]
	delete(c.pending, msg.ID.Key())
	c.mu.Unlock()
	r := responseOf(msg)
	if s := c.subscription(msg.ID.Raw()); s != nil {
		s.end(cmp.Or(r.err, io.EOF))
	}
	if answer != nil { // otherwise the call was cancelled
		answer <- r
	}
}

func responseOf(msg *wire.Envelope) response {
	if msg.Error == nil {
		return response{result: msg.Result}
	}
	e := new(mcp.Error)
	if err := json.Unmarshal(msg.Error, e); err != nil {
		return response{err: fmt.Errorf("servertest: the server sent a bad error %s: %w", msg.Error, err)}
	}
	return response{err: e}
}

func (c *Client) notified(msg *wire.Envelope) {
	c.changed(msg)
	if f := c.cfg.notification; f != nil {
		f(msg.Method, msg.Params)
	}
	if f := c.cfg.progress; f != nil && msg.Method == mcp.NotificationProgress {
		var p Progress
		if json.Unmarshal(msg.Params, &p) == nil {
			f(p)
		}
	}
}

// asked answers a request of the server, off the goroutine that reads.
func (c *Client) asked(msg *wire.Envelope) {
	c.answering.Go(func() {
		// An error ends the connection, which fails all calls.
		_ = c.send(c.connected, c.answerFrame(c.connected, msg))
	})
}

func (c *Client) answerFrame(ctx context.Context, msg *wire.Envelope) []byte {
	raw, err := c.answer(ctx, msg)
	if err == nil {
		return append(append(wire.AppendResponseHead(nil, msg.ID), raw...), '}', '\n')
	}
	rpc, ok := mcp.AsError(err)
	if !ok {
		rpc = mcp.NewError(mcp.CodeInternalError, "%s", err)
	}
	return append(wire.AppendError(nil, msg.ID, rpc), '\n')
}

func (c *Client) answer(ctx context.Context, msg *wire.Envelope) (jsontext.Value, error) {
	switch {
	case msg.Method == mcp.MethodPing:
		return jsontext.Value("{}"), nil
	case c.cfg.input == nil:
		return nil, mcp.NewError(mcp.CodeMethodNotFound, "the client has no method %q", msg.Method)
	}
	return c.cfg.answerTo(ctx, Question{Method: msg.Method, Params: msg.Params})
}
