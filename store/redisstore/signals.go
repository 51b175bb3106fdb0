package redisstore

import (
	"cmp"
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

// Publish implements [store.Signals]. The server says how many listen to the channel. A cluster has sharded channels for
// that: of others each of its servers counts only its own listeners.
func (s *Store) Publish(ctx context.Context, channel string, message []byte) error {
	cluster, command := s.cluster(), "publish"
	if cluster != nil {
		command = "spublish"
	}
	cmd := redis.NewCmd(ctx, command, s.channels()+channel, message)
	cmd.SetFirstKeyPos(1) // a cluster sends it to the server of the channel's slot, not to any one
	if err := s.process(ctx, cmd); err != nil {
		return fault("publish", s.explained(err))
	}
	if receivers, err := cmd.Int64(); err == nil && receivers == 0 {
		if cluster != nil {
			// A server that was the master takes the message and does not count the listeners of the present one.
			cluster.ReloadState(ctx)
		}
		return fmt.Errorf("redisstore: publish: %w", store.ErrNoReceiver)
	}
	return nil
}

// channels returns the prefix of channels. In a cluster all are in one slot, so that senders and listeners
// use the same server. The messages of different servers overtake each other.
func (s *Store) channels() string {
	switch {
	case s.cluster() == nil:
		return s.prefix
	case s.prefix == "" || s.prefix[0] == '}': // braces with nothing between them choose no slot
		return "{_" + s.prefix + "}"
	}
	return "{" + s.prefix + "}"
}

// cluster returns the client if it is one of a cluster, and nil otherwise.
func (s *Store) cluster() *redis.ClusterClient {
	cluster, _ := s.client.(*redis.ClusterClient)
	return cluster
}

// explained returns what an error of SPUBLISH or SSUBSCRIBE means if the servers of a cluster do not know the command.
func (s *Store) explained(err error) error {
	if s.cluster() != nil && strings.Contains(strings.ToLower(err.Error()), "unknown command") {
		return fmt.Errorf("the cluster has no sharded channels, and must run Redis 7.0 or later, or Valkey: %w", err)
	}
	return err
}

// checkChannels returns an error if this client may not listen or publish in the cluster, or its servers cannot.
func (s *Store) checkChannels(ctx context.Context) error {
	sub, err := (&listener{store: s, names: []string{s.channels()}}).subscribe(ctx)
	if err != nil {
		return fault("check", err)
	}
	defer sub.Close()
	if err := s.Publish(ctx, "", nil); !errors.Is(err, store.ErrNoReceiver) {
		return err
	}
	return nil // the master has changed meanwhile
}

// Listen implements [store.Signals]. Each call has a connection of its own. A message is lost only with
// that connection: when receive is slow, the messages wait in the connection, and a server with more than
// its client-output-buffer-limit closes it.
//
// Listen returns after one dial and the server's confirmation, or when ctx ends. It waits for the confirmation of all channels
// for the client's read timeout, or for [DefaultTimeout] if the client has none. It reads until ctx ends, or the store is closed.
func (s *Store) Listen(ctx context.Context, channels []string, receive func(string, []byte), missed func()) error {
	l := &listener{store: s, receive: receive, missed: missed}
	for _, channel := range channels {
		l.names = append(l.names, s.channels()+channel)
	}
	sub, err := l.subscribe(ctx)
	if err != nil {
		return fault("listen", err)
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
	cluster := l.store.cluster()
	if cluster == nil {
		sub := l.store.client.Subscribe(ctx) // does not connect
		if err := l.confirm(ctx, sub, sub.Subscribe(ctx, l.names...)); err != nil {
			return nil, err
		}
		return sub, nil
	}
	sub, err := l.subscribeAtMaster(ctx, cluster)
	if err != nil {
		cluster.ReloadState(ctx) // another server may have the slot by now
		return nil, l.store.explained(err)
	}
	return sub, nil
}

// subscribeAtMaster subscribes at the server to which senders publish. Another one of its shard would pass all messages
// on, and the master would not count the listener.
func (l *listener) subscribeAtMaster(ctx context.Context, cluster *redis.ClusterClient) (*redis.PubSub, error) {
	master, err := cluster.MasterForKey(ctx, l.names[0])
	if err != nil {
		return nil, err
	}
	sub := master.SSubscribe(ctx) // does not connect
	if err := l.confirm(ctx, sub, sub.SSubscribe(ctx, l.names...)); err != nil {
		return nil, err
	}
	// From now on the server ends the subscription when it gives up the slot. What the client knows of the cluster may be
	// older: then the server is not the master any more.
	info, err := master.Info(ctx, "replication").Result()
	if err == nil && !strings.Contains(info, "role:master") {
		err = errors.New("the server has the channels as a replica of another one")
	}
	if err != nil {
		sub.Close()
		return nil, err
	}
	return sub, nil
}

// confirm waits until the server has confirmed all channels, unless it could not be asked, or until ctx ends. After an error
// it closes the subscription.
func (l *listener) confirm(ctx context.Context, sub *redis.PubSub, err error) error {
	defer context.AfterFunc(ctx, func() { sub.Close() })()
	until := time.Now().Add(l.store.confirmTimeout())
	for range l.names {
		if err != nil {
			break
		}
		var event any
		event, err = sub.ReceiveTimeout(ctx, max(time.Until(until), time.Millisecond)) // 0 would be no bound
		if s, confirmed := event.(*redis.Subscription); err == nil && (!confirmed || strings.HasSuffix(s.Kind, "unsubscribe")) {
			err = fmt.Errorf("the server has sent %v instead of a confirmation", event)
		}
	}
	if err != nil {
		sub.Close()
		err = cmp.Or(context.Cause(ctx), err)
	}
	return err
}

// confirmTimeout bounds the wait for the confirmations.
func (s *Store) confirmTimeout() time.Duration {
	var timeout time.Duration
	switch client := s.client.(type) {
	case *redis.Client:
		timeout = client.Options().ReadTimeout
	case *redis.ClusterClient:
		timeout = client.Options().ReadTimeout
	}
	if timeout <= 0 { // the client has no bound
		return DefaultTimeout
	}
	return timeout
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

// read hands over what a subscription receives, until its connection fails, the server ends it, or ctx ends. It closes
// the subscription.
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
		switch event := event.(type) {
		case *redis.Subscription: // the server has given up the slot of the channels
			return
		case *redis.Message:
			if ctx.Err() == nil {
				l.busy.Store(true)
				l.receive(strings.TrimPrefix(event.Channel, l.store.channels()), []byte(event.Payload))
				l.busy.Store(false)
			}
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
