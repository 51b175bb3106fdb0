// Package redisstore lets the replicas of a server share values, signals, events and rate limits in Redis or Valkey (see
// [store.Store]): one server, one behind Sentinel, or a cluster.
package redisstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/vitrine-mcp/vitrine/store"
)

// DefaultPrefix begins the keys and channels, unless an option says otherwise.
const DefaultPrefix = "vitrine:"

// A Store has [store.Values], [store.Signals], a [store.EventLog] and [store.Buckets] in Redis. Its methods are safe for concurrent use.
type Store struct {
	client redis.UniversalClient
	prefix string
	name   string // for logs
}

// New returns a store that uses a client, with a prefix for its keys and channels. All replicas of a
// server need the same prefix, and different servers different ones. The caller closes the client. Its
// options need ContextTimeoutEnabled, because calls would outlive their deadlines, and timeouts.
func New(client redis.UniversalClient, prefix string) *Store {
	s := &Store{client: client, prefix: prefix}
	if named, ok := client.(fmt.Stringer); ok {
		s.name = named.String()
	}
	return s
}

// Open returns a store for a URL:
//
//	redis://user:password@host:6379/0        one server; rediss is over TLS, unix a socket
//	redis+cluster://host:6379?addr=host2:6379  a cluster; rediss+cluster is over TLS
//	redis+sentinel://host:26379?master_name=main  the server that Sentinel names; rediss+sentinel is over TLS
//
// Its query may have the options of go-redis in snake case (dial_timeout=3s, pool_size=20,
// skip_verify=true, …) and prefix, which is [DefaultPrefix] unless given. Open does not connect.
//
// go-redis has one logger for the process, which writes to stderr. The first Open silences it. A program
// that wants its lines calls redis.SetLogger afterwards.
func Open(text string) (*Store, error) {
	silence()
	client, prefix, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("redisstore: %w", err)
	}
	return &Store{client: client, prefix: prefix, name: nameOf(text)}, nil
}

// Store returns s as a [store.Store].
func (s *Store) Store() store.Store {
	return store.Store{Values: s, Signals: s, Events: s, Buckets: s, Name: s.name, Check: s.Check}
}

// Close closes the connections of a store that Open has returned. The caller must not use it afterwards.
func (s *Store) Close() error { return s.client.Close() }

// Ping returns an error if the server does not answer. In a cluster it asks one of its servers.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.client.Ping(ctx).Err(); err != nil {
		return fault("ping", err)
	}
	return nil
}

// Check returns an error if a server cannot be reached, or may delete values before their end, because
// its maxmemory-policy is not noeviction ([ErrEvicts]). In a cluster it asks all masters, and then returns an error if
// there are no sharded channels (Redis 7.0 or later, or Valkey), or the user may not use them.
func (s *Store) Check(ctx context.Context) error {
	check := func(ctx context.Context, client redis.Cmdable) error {
		info, err := client.Info(ctx, "memory").Result()
		if err != nil {
			return fault("check", err)
		}
		for line := range strings.Lines(info) {
			if policy, found := strings.CutPrefix(strings.TrimSpace(line), "maxmemory_policy:"); found && policy != "noeviction" {
				return fmt.Errorf("redisstore: %w: maxmemory-policy is %s, and must be noeviction", ErrEvicts, policy)
			}
		}
		return nil
	}
	if cluster := s.cluster(); cluster != nil {
		err := cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error { return check(ctx, master) })
		if err != nil {
			return err
		}
		return s.checkChannels(ctx)
	}
	return check(ctx, s.client)
}

// ErrEvicts says that the server may delete values before their end. It is [store.ErrEvicts].
var ErrEvicts = store.ErrEvicts
