package servertest

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/internal/wire"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Subscription is an open subscriptions/listen. Make one with [Client.Listen]. It is safe
// for concurrent use.
type Subscription struct {
	client *Client
	id     mcp.ID
	filter mcp.SubscriptionFilter // set before acknowledged is closed

	acknowledged chan struct{}
	ending       sync.Once
	ended        chan struct{} // closed when the server has answered, or after Close
	err          error         // set before ended is closed

	mu      sync.Mutex // guards the rest
	arrived []Change
	more    chan struct{} // closed when something has arrived; nil while nobody waits
}

// A Change is a notification on a subscription.
type Change struct {
	// Method is that of the notification, such as [mcp.NotificationToolsListChanged].
	Method string
	// URI is the resource that was updated, or "".
	URI string
	// Params is the whole params member.
	Params jsontext.Value
}

// Listen subscribes to changes and returns when the server has acknowledged the subscription.
// It ends with [Subscription.Close], the connection, or the server. Legacy clients have no
// subscriptions: the server notifies them of changes anyway, see [OnNotification].
func (c *Client) Listen(ctx context.Context, filter mcp.SubscriptionFilter) (*Subscription, error) {
	s := &Subscription{client: c, acknowledged: make(chan struct{}), ended: make(chan struct{})}
	c.mu.Lock()
	c.lastID++
	s.id = mcp.IntID(c.lastID)
	if c.listening == nil {
		c.listening = map[string]*Subscription{}
	}
	c.listening[s.id.Raw()] = s
	c.mu.Unlock()
	raw, err := c.cfg.requestParams(mcp.SubscriptionsListenParams{Notifications: filter}, s.id)
	if err == nil {
		err = c.send(ctx, requestFrame(s.id, mcp.MethodSubscriptionsListen, raw))
	}
	if err != nil {
		c.forgetSubscription(s)
		return nil, fmt.Errorf("servertest: %s: %w", mcp.MethodSubscriptionsListen, err)
	}
	var end error
	select {
	case <-s.acknowledged:
	case <-s.ended:
	case <-c.connected.Done():
		end = c.lost()
	case <-ctx.Done():
		end = context.Cause(ctx)
	}
	switch { // what has arrived came before the end
	case isClosed(s.acknowledged):
		return s, nil
	case isClosed(s.ended):
		return nil, s.err
	}
	_ = s.Close() // if this fails the connection is lost
	return nil, end
}

// Filter returns the part of the filter that the server honours.
func (s *Subscription) Filter() mcp.SubscriptionFilter { return s.filter }

// Next returns the next change, in the order of arrival. It waits until there is one. The error
// is io.EOF if the server has ended the subscription with a result, and [mcp.ErrClosed] after Close.
func (s *Subscription) Next(ctx context.Context) (Change, error) {
	for {
		change, ok, more := s.take()
		if ok {
			return change, nil
		}
		var end error
		select {
		case <-more:
			continue
		case <-s.ended:
		case <-s.client.connected.Done():
			end = s.client.lost()
		case <-ctx.Done():
			end = context.Cause(ctx)
		}
		if change, ok, _ := s.take(); ok { // it came before the end
			return change, nil
		}
		if isClosed(s.ended) {
			return Change{}, s.err
		}
		return Change{}, end
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// take returns the oldest change, or a channel that is closed when one arrives.
func (s *Subscription) take() (c Change, ok bool, more <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.arrived) == 0 {
		if s.more == nil {
			s.more = make(chan struct{})
		}
		return Change{}, false, s.more
	}
	c, s.arrived = s.arrived[0], s.arrived[1:]
	return c, true, nil
}

// Close cancels the subscription. Changes that arrive later are ignored. A Next that waits returns.
func (s *Subscription) Close() error {
	s.end(fmt.Errorf("servertest: the subscription is closed: %w", mcp.ErrClosed))
	return s.client.send(context.Background(), cancelFrame(s.id))
}

func (c *Client) forgetSubscription(s *Subscription) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.listening, s.id.Raw())
}

// subscription returns the subscription with an id, given as JSON, or nil.
func (c *Client) subscription(id string) *Subscription {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.listening[id]
}

// changed passes a notification to its subscription, if it has one. It runs on the reading
// goroutine.
func (c *Client) changed(msg *wire.Envelope) {
	var params struct {
		URI           string                    `json:"uri"`
		Meta          map[string]jsontext.Value `json:"_meta"`
		Notifications mcp.SubscriptionFilter    `json:"notifications"`
	}
	if msg.Params == nil || json.Unmarshal(msg.Params, &params) != nil {
		return
	}
	s := c.subscription(string(params.Meta[mcp.MetaSubscriptionID]))
	switch {
	case s == nil:
	case msg.Method == mcp.NotificationSubscriptionsAcknowledged:
		s.filter = params.Notifications
		close(s.acknowledged)
	case !isClosed(s.acknowledged):
		s.end(fmt.Errorf("servertest: %s precedes the acknowledgement of the subscription", msg.Method))
	case msg.Method == mcp.NotificationCancelled: // the answer that follows says the same
	default:
		s.add(Change{msg.Method, params.URI, msg.Params})
	}
}

func (s *Subscription) add(c Change) {
	s.mu.Lock()
	s.arrived = append(s.arrived, c)
	more := s.more
	s.more = nil
	s.mu.Unlock()
	if more != nil {
		close(more)
	}
}

// end records why the subscription has ended, unless it has ended before.
func (s *Subscription) end(err error) {
	s.client.forgetSubscription(s)
	s.ending.Do(func() {
		s.err = err
		close(s.ended)
	})
}
