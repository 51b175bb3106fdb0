package store

import (
	"context"
	"errors"
)

// A Store is what the replicas of a server share (server.WithStore). package redisstore makes one of a
// Redis server. The zero value shares nothing.
type Store struct {
	Values  Values
	Signals Signals
	// Events keeps what legacy clients can resume. nil: each replica keeps its own.
	Events EventLog
	// Buckets keep the tokens of rate limits. nil: each replica has its own.
	Buckets Buckets
	// Name is what the log calls the store: its address, without credentials. May be "".
	Name string
	// Check returns an error that matches [ErrEvicts] if the store may delete values before their end. The server calls it
	// when it begins to listen, and after each outage: the store may be another one then. It must be safe for concurrent
	// use. May be nil.
	Check func(ctx context.Context) error
}

// ErrEvicts says that the store may delete values before their end.
var ErrEvicts = errors.New("the server evicts values")

// Shared reports whether the replicas share anything.
func (s Store) Shared() bool { return s.Values != nil && s.Signals != nil }
