package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/vitrine-mcp/vitrine/store"
)

const (
	// askAfter is how long a subscription is silent until it asks the server whether it is still there,
	// and then waits for an answer. A connection that hangs is noticed after at most three times that.
	askAfter = 2 * time.Second
	// firstReconnectPause and maxReconnectPause bound the pause before a try to subscribe again. It is
	// random, so that the replicas do not all come at once when the server is back. go-redis itself
	// tries once, without a pause, when the server closes the connection.
	firstReconnectPause = 100 * time.Millisecond
	maxReconnectPause   = 2 * time.Second
)

// Publish implements [store.Signals]. Of one server it knows whether anybody listens. Of a cluster it does not,
// because a server there counts only its own listeners.
func (s *Store) Publish(ctx context.Context, channel string, message []byte) error {
	cmd := redis.NewCmd(ctx, "publish", s.channels()+channel, message)
	cmd.SetFirstKeyPos(1) // a cluster sends it to the server of the channel's slot, not to any one
	if err := s.client.Process(ctx, unrepeated{cmd}); err != nil {
		return fmt.Errorf("redisstore: publish: %w", err)
	}
	if receivers, err := cmd.Int64(); err == nil && receivers == 0 && !s.isCluster() {
		return fmt.Errorf("redisstore: publish: %w", store.ErrNoReceiver)
	}
	return nil
}

// channels returns the prefix of channels. In a cluster all are in one slot, so that senders and listeners
// use the same server. The messages of different servers overtake each other.
func (s *Store) channels() string {
	if s.isCluster() {
		return "{" + s.prefix + "}"
	}
	return s.prefix
}

func (s *Store) isCluster() bool {
	_, cluster := s.client.(*redis.ClusterClient)
	return cluster
}

// Listen implements [store.Signals]. Each call has a connection of its own. A message is lost only with
// that connection: when receive is slow, the messages wait in the connection, and a server with more than
// its client-output-buffer-limit closes it.
//
// Listen returns after one dial and, a second later at most, the server's confirmation. It reads until
// ctx ends, or the store is closed.
func (s *Store) Listen(ctx context.Context, channels []string, receive func(string, []byte), missed func()) error {
	l := &listener{store: s, receive: receive, missed: missed}
	for _, channel := range channels {
		l.names = append(l.names, s.channels()+channel)
	}
	sub, err := l.subscribe(ctx)
	if err != nil {
		return fmt.Errorf("redisstore: listen: %w", err)
	}
	go l.run(ctx, sub)
	return nil
}

// A listener has the state of one Listen.
type listener struct {
	store   *Store
	names   []string // of channels, with the prefix
	receive func(string, []byte)
	missed  func()
	heard   atomic.Bool // since watch has looked
	busy    atomic.Bool // receive runs
}

// subscribe returns a subscription after the server has confirmed all channels.
func (l *listener) subscribe(ctx context.Context) (*redis.PubSub, error) {
	sub := l.store.client.Subscribe(ctx) // does not connect
	err := sub.Subscribe(ctx, l.names...)
	for range l.names {
		if err != nil {
			break
		}
		var event any
		event, err = sub.ReceiveTimeout(ctx, DefaultTimeout)
		if _, confirmed := event.(*redis.Subscription); err == nil && !confirmed {
			err = fmt.Errorf("the server has sent %T instead of a confirmation", event)
		}
	}
	if err != nil {
		sub.Close()
		return nil, err
	}
	return sub, nil
}

// run hands messages over until ctx ends or the store is closed. It subscribes again after a failure.
func (l *listener) run(ctx context.Context, sub *redis.PubSub) {
	for {
		l.read(ctx, sub)
		if sub = l.subscribeAgain(ctx); sub == nil {
			return
		}
		l.missed()
	}
}

// subscribeAgain tries until it has a subscription. It returns nil if there will be none.
func (l *listener) subscribeAgain(ctx context.Context) *redis.PubSub {
	for try := 0; ; try++ {
		if pause(ctx, try, firstReconnectPause, maxReconnectPause) != nil {
			return nil
		}
		sub, err := l.subscribe(ctx)
		if err == nil {
			return sub
		}
		if errors.Is(err, redis.ErrClosed) {
			return nil
		}
	}
}

// read hands over what a subscription receives, until its connection fails or ctx ends. It closes the
// subscription.
func (l *listener) read(ctx context.Context, sub *redis.PubSub) {
	defer sub.Close()
	l.heard.Store(true)
	over := make(chan struct{})
	defer close(over)
	go l.watch(ctx, sub, over)
	for {
		event, err := sub.Receive(ctx) // blocks until watch closes sub
		if err != nil {
			return
		}
		l.heard.Store(true)
		if message, ok := event.(*redis.Message); ok && ctx.Err() == nil {
			l.busy.Store(true)
			l.receive(strings.TrimPrefix(message.Channel, l.store.channels()), []byte(message.Payload))
			l.busy.Store(false)
		}
	}
}

// watch asks a silent server whether it is still there, and closes the subscription if no answer comes,
// or when ctx ends. A deadline for reads would not do: go-redis continues after one in the middle of a
// message.
func (l *listener) watch(ctx context.Context, sub *redis.PubSub, over <-chan struct{}) {
	ticker := time.NewTicker(askAfter)
	defer ticker.Stop()
	asked := false
	for {
		select {
		case <-over:
			return
		case <-ctx.Done():
			sub.Close()
			return
		case <-ticker.C:
			switch {
			case l.heard.Swap(false) || l.busy.Load():
				asked = false
			case asked || sub.Ping(ctx) != nil:
				sub.Close()
				return
			default:
				asked = true
			}
		}
	}
}
