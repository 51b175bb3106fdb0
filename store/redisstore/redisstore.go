// Package redisstore lets the replicas of a server share values and signals in Redis or Valkey (see
// [store.Store]): one server, one behind Sentinel, or a cluster.
package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/vitrine-mcp/vitrine/store"
)

// DefaultPrefix begins the keys and channels, unless an option says otherwise.
const DefaultPrefix = "vitrine:"

// A Store has [store.Values] and [store.Signals] in Redis. Its methods are safe for concurrent use.
type Store struct {
	client redis.UniversalClient
	prefix string
}

// New returns a store that uses a client, with a prefix for its keys and channels. All replicas of a
// server need the same prefix, and different servers different ones. The caller closes the client.
func New(client redis.UniversalClient, prefix string) *Store { return &Store{client, prefix} }

// Open returns a store for a URL:
//
//	redis://user:password@host:6379/0        one server; rediss is over TLS, unix a socket
//	redis+cluster://host:6379?addr=host2:6379  a cluster; rediss+cluster is over TLS
//	redis+sentinel://host:26379?master_name=main  the server that Sentinel names; rediss+sentinel is over TLS
//
// Its query may have the options of go-redis in snake case (dial_timeout=3s, pool_size=20,
// skip_verify=true, …) and prefix, which is [DefaultPrefix] unless given. Open does not connect.
func Open(text string) (*Store, error) {
	client, prefix, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("redisstore: %w", err)
	}
	return New(client, prefix), nil
}

// parse returns the client for a URL, and the prefix.
func parse(text string) (client redis.UniversalClient, prefix string, err error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, "", errors.New("the URL cannot be parsed") // the error quotes it, with the password
	}
	query := u.Query()
	prefix = DefaultPrefix
	if query.Has("prefix") {
		prefix = query.Get("prefix")
		query.Del("prefix")
		u.RawQuery = query.Encode()
	}
	base, kind, _ := strings.Cut(u.Scheme, "+")
	u.Scheme = base
	switch kind {
	case "":
		o, err := redis.ParseURL(u.String())
		if err != nil {
			return nil, "", err
		}
		return redis.NewClient(o), prefix, nil
	case "cluster":
		o, err := redis.ParseClusterURL(u.String())
		if err != nil {
			return nil, "", err
		}
		return redis.NewClusterClient(o), prefix, nil
	case "sentinel":
		o, err := redis.ParseFailoverURL(u.String())
		if err != nil {
			return nil, "", err
		}
		return redis.NewFailoverClient(o), prefix, nil
	}
	return nil, "", fmt.Errorf("the scheme %q is not known: redis, rediss, unix, redis+cluster or redis+sentinel", base+"+"+kind)
}

// Store returns s as a [store.Store].
func (s *Store) Store() store.Store { return store.Store{Values: s, Signals: s} }

// Close closes the connections of a store that Open has returned. The caller must not use it afterwards.
func (s *Store) Close() error { return s.client.Close() }

// Check returns an error if the server cannot be reached, or may delete values before their end, because
// its maxmemory-policy is not noeviction.
func (s *Store) Check(ctx context.Context) error {
	info, err := s.client.Info(ctx, "memory").Result()
	if err != nil {
		return fmt.Errorf("redisstore: %w", err)
	}
	for line := range strings.Lines(info) {
		if policy, found := strings.CutPrefix(strings.TrimSpace(line), "maxmemory_policy:"); found && policy != "noeviction" {
			return fmt.Errorf("redisstore: %w: maxmemory-policy is %s, and must be noeviction", ErrEvicts, policy)
		}
	}
	return nil
}

// ErrEvicts says that the server may delete values before their end.
var ErrEvicts = errors.New("the server evicts values")
