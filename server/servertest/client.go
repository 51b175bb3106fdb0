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
// The connection works as one over standard input and output: it carries the bytes of
// the protocol, and the server's limits, deadlines and cancellation are in force. It works
// inside a bubble of package testing/synctest, in which deadlines take no time, if the server
// was made in the same bubble.
//
// # Spans, metrics and log lines
//
// Tests can also check what operators see of a call. [Record] returns an option of
// [server.New] that records it, and each assertion is one line:
//
//	rec := servertest.Record(t)
//	client := servertest.Connect(t, server.New("weather", "1.2.0", rec))
//	...
//	rec.Span(t, "tools/call forecast", "error.type", "tool_error")
//	rec.Metric(t, "vitrine_responses_sent_total", 1, "method", "tools/call")
//	rec.Log(t, "handler.error", "target", "forecast")
//
// The assertions wait for events after the answer. The text of a failed assertion lists what
// was recorded.
package servertest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Client is one connection to a server. Make one with [Connect]. It is safe for concurrent
// use, and calls run at the same time.
type Client struct {
	cfg  config
	conn *end
	// writing is a lock for writing one message. A channel lets a waiter give up when its
	// context ends.
	writing chan struct{}

	read     chan struct{} // closed when the reading goroutine has returned
	served   chan struct{} // closed when the server has returned from serving the connection
	serveErr error         // set before served is closed

	answering sync.WaitGroup // of the server's questions
	// connected ends when either side has closed the connection.
	connected  context.Context
	disconnect context.CancelCauseFunc

	mu      sync.Mutex // guards the rest but closing
	lastID  int64
	pending map[string]chan response // by id; each has room for the one response
	// listening holds the open subscriptions, by id.
	listening map[string]*Subscription

	closing sync.Once
}

// A response is the result or the error of a call.
type response struct {
	result jsontext.Value
	err    error
}

// Call calls a method and returns its result as JSON. params must encode to a JSON
// object, or be nil; what the protocol revision wants in its _meta member is added
// unless it is there. An error of the server is an [*mcp.Error].
//
// When ctx ends before the answer has arrived, Call sends notifications/cancelled and returns
// context.Cause(ctx). With [OnInput], a result that asks for input is answered, and the
// call made again.
func (c *Client) Call(ctx context.Context, method string, params any) (jsontext.Value, error) {
	for {
		result, err := c.call(ctx, method, params)
		if err != nil {
			return nil, err
		}
		again, err := c.cfg.answerInput(ctx, params, result)
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
	var end error
	select {
	case r := <-answer:
		return r.result, r.err
	case <-c.connected.Done():
		end = c.lost()
	case <-ctx.Done():
		end = context.Cause(ctx)
	}
	select {
	case r := <-answer: // it came before the end
		return r.result, r.err
	default:
	}
	if ctx.Err() != nil && method != mcp.MethodInitialize { // which must not be cancelled
		// If this fails the connection is lost. The caller gets the cause of ctx all the same.
		_ = c.send(context.Background(), cancelFrame(id))
	}
	return nil, end
}

// Notify sends a notification. params must encode to a JSON object, or be nil.
func (c *Client) Notify(method string, params any) error {
	raw, err := objectOf(params)
	if err != nil {
		return fmt.Errorf("servertest: %s: %w", method, err)
	}
	return c.send(context.Background(), notificationFrame(method, raw))
}

// expect makes an id and the channel on which its response will arrive.
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

// send writes one message. It writes a message to its end once it has begun, so that the next
// one begins on a new line.
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

// lost returns the error of a call whose connection has ended.
func (c *Client) lost() error {
	return fmt.Errorf("servertest: read: %w: %w", mcp.ErrClosed, context.Cause(c.connected))
}
