package redisstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// healthCheck is how often an idle subscription asks whether the server is still there.
const healthCheck = 3 * time.Second

// Publish implements [store.Signals].
func (s *Store) Publish(ctx context.Context, channel string, message []byte) error {
	if err := s.client.Publish(ctx, s.prefix+channel, message).Err(); err != nil {
		return fmt.Errorf("redisstore: publish: %w", err)
	}
	return nil
}

// Listen implements [store.Signals].
func (s *Store) Listen(ctx context.Context, channels []string, receive func(string, []byte), missed func()) error {
	names := make([]string, len(channels))
	for i, channel := range channels {
		names[i] = s.prefix + channel
	}
	sub := s.client.Subscribe(ctx, names...)
	if _, err := sub.Receive(ctx); err != nil { // the first of the confirmations
		sub.Close()
		return fmt.Errorf("redisstore: listen: %w", err)
	}
	go s.deliver(ctx, sub, len(names)-1, len(names), receive, missed)
	return nil
}

// deliver hands the messages of a subscription over until ctx ends. Each connection confirms all
// channels, the first one so many more.
func (s *Store) deliver(ctx context.Context, sub *redis.PubSub, left, all int, receive func(string, []byte), missed func()) {
	defer sub.Close()
	events := sub.ChannelWithSubscriptions(redis.WithChannelHealthCheckInterval(healthCheck))
	first := true
	for {
		select {
		case <-ctx.Done():
			return
		case event, open := <-events:
			if !open {
				return
			}
			switch event := event.(type) {
			case *redis.Message:
				receive(strings.TrimPrefix(event.Channel, s.prefix), []byte(event.Payload))
			case *redis.Subscription:
				if left == 0 { // of a new connection
					left, first = all, false
				}
				if left--; left == 0 && !first {
					missed()
				}
			}
		}
	}
}
