// Package servertest lets the authors of tools test them: it connects a client to
// a [server.Server] in memory, in the spirit of package net/http/httptest.
//
//	func TestForecast(t *testing.T) {
//		client := servertest.Connect(t, newServer())
//		result, err := client.CallTool(t.Context(), "forecast", ForecastIn{City: "Bern"})
//		if err != nil || result.IsError {
//			t.Fatal(err, result)
//		}
//		...
//	}
//
// Everything happens as with a client on standard input and output: the bytes are
// those of the protocol, and limits, deadlines and cancellation are the server's.
// The connection works inside a bubble of package testing/synctest, in which
// deadlines cost no time, if the server was made in the same bubble.
//
// # Spans, metrics and log lines
//
// What operators see of a call can be tested as well. [Record] returns an option of
// [server.New] that keeps all of it, and each assertion is one line:
//
//	rec := servertest.Record(t)
//	client := servertest.Connect(t, server.New("weather", "1.2.0", rec))
//	...
//	rec.Span(t, "tools/call forecast", "error.type", "tool_error")
//	rec.Metric(t, "vitrine_responses_sent_total", 1, "method", "tools/call")
//	rec.Log(t, "handler.error", "target", "forecast")
//
// The assertions wait for what happens after the answer. The text of one that fails lists
// what there was.
package servertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// A Client is one connection to a server. Make one with [Connect]. Its methods may
// be called from any goroutine, and calls run at the same time.
type Client struct {
	cfg  config
	conn *end
	// writing is a lock that may be waited for with a context: one message is
	// written at a time.
	writing chan struct{}

	read     chan struct{} // closed when the reading goroutine has returned
	served   chan struct{} // closed when the server has let go of the connection
	serveErr error         // set before served is closed

	answering sync.WaitGroup // of the server's questions
	// connected ends when either side has hung up.
	connected  context.Context
	disconnect context.CancelCauseFunc

	mu      sync.Mutex // guards the rest but closing
	lastID  int64
	pending map[string]chan response // by id; each has room for the one response
	// listening holds the open subscriptions, by id.
	listening map[string]*Subscription

	closing sync.Once
}

// A response is what a call waits for.
type response struct {
	result jsontext.Value
	err    error
}

// Connect connects a client to srv. When the test ends the connection is closed,
// and the test waits until the server has let go of it. A handler that has not
// returned by then, although its context was cancelled, fails the test.
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

// Close hangs up and waits until the server has let go of the connection. Calls that
// wait for an answer fail at once. Their handlers may go on for the end-of-file grace of
// the server's limits and are then cancelled; the error names those that did not return.
// To the server this is an orderly end, of which it logs no warning. Only the first call
// does anything.
func (c *Client) Close() (err error) {
	c.closing.Do(func() { err = c.close() })
	return err
}

func (c *Client) close() error {
	c.disconnect(mcp.ErrPeerGone)
	_ = c.conn.CloseWrite() // a net.Pipe: there is nothing to fail
	<-c.read
	c.answering.Wait()
	<-c.served
	return c.serveErr
}

// handshake does what the protocol revision wants before the first call.
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

// Call calls a method and returns its result as JSON. params must encode to a JSON
// object, or be nil; what the protocol revision wants in its _meta member is added
// unless it is there. An error of the server is an [*mcp.Error].
//
// When ctx ends first, Call sends notifications/cancelled and returns
// context.Cause(ctx). With [OnInput], a result that asks for input is answered, and the
// call made again.
func (c *Client) Call(ctx context.Context, method string, params any) (jsontext.Value, error) {
	for {
		result, err := c.call(ctx, method, params)
		if err != nil {
			return nil, err
		}
		again, err := c.answerInput(ctx, params, result)
		if again == nil || err != nil {
			return result, err
		}
		params = again
	}
}

// call makes one request.
func (c *Client) call(ctx context.Context, method string, params any) (jsontext.Value, error) {
	id, answer := c.expect()
	defer c.forget(id)
	raw, err := c.cfg.requestParams(params, id)
	if err != nil {
		return nil, fmt.Errorf("servertest: %s: %w", method, err)
	}
	if err := c.send(ctx, requestFrame(id, method, raw)); err != nil {
		return nil, err
	}
	select {
	case r := <-answer:
		return r.result, r.err
	case <-c.connected.Done():
		return nil, c.lost()
	case <-ctx.Done():
	}
	if method != mcp.MethodInitialize { // which must not be cancelled
		// Its fate is the connection's, and the caller wants the cause.
		_ = c.send(context.Background(), cancelFrame(id))
	}
	return nil, context.Cause(ctx)
}

// Notify sends a notification. params must encode to a JSON object, or be nil.
func (c *Client) Notify(method string, params any) error {
	raw, err := objectOf(params)
	if err != nil {
		return fmt.Errorf("servertest: %s: %w", method, err)
	}
	return c.send(context.Background(), notificationFrame(method, raw))
}

// expect makes an id and the place where its response will arrive.
func (c *Client) expect() (mcp.ID, <-chan response) {
	answer := make(chan response, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastID++
	id := mcp.IntID(c.lastID)
	c.pending[id.Key()] = answer
	return id, answer
}

func (c *Client) forget(id mcp.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, id.Key())
}

// send writes one message. A message that has begun is written to its end, so
// that the next one begins on a line of its own.
func (c *Client) send(ctx context.Context, frame []byte) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case c.writing <- struct{}{}:
		defer func() { <-c.writing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if _, err := c.conn.Write(frame); err != nil {
		return fmt.Errorf("servertest: write: %w", errors.Join(mcp.ErrClosed, err))
	}
	return nil
}

// lost is the error of a call whose connection ended.
func (c *Client) lost() error {
	return fmt.Errorf("servertest: read: %w: %w", mcp.ErrClosed, context.Cause(c.connected))
}
