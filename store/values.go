package store

import (
	"context"
	"errors"
	"time"
)

// Values keep what the replicas of a server must agree about: which sessions have ended, which states
// were used, what a session has set, the records of tasks. All have an end, after which they are gone.
// Values must be safe for concurrent use by several processes.
//
// After another error than [ErrNoValue], Claim and Update may have stored the value or not, such as when
// the connection was lost before the answer came. They store it at most once.
//
// Keys have at most 256 bytes, values at most 8 MiB. The context of each call has a deadline. An
// implementation that blocks must return then. A plain call of a client needs no value.
type Values interface {
	// Get returns a value, or [ErrNoValue].
	Get(ctx context.Context, key string) ([]byte, error)
	// Claim stores a value for so long if the key has none, and reports whether it did: of several
	// claims at the same time one succeeds. With a life that is not positive the value ends at once.
	Claim(ctx context.Context, key string, value []byte, life time.Duration) (claimed bool, err error)
	// Update changes a value in one atomic step. change gets the current one, or nil, and returns the
	// new one and how long it lives from now on; with a life that is not positive the key is deleted. If
	// change returns an error, nothing is stored and Update returns that error. change may be called
	// again if another caller has changed the value meanwhile, and must not change what it gets.
	Update(ctx context.Context, key string, change func(old []byte) (value []byte, life time.Duration, err error)) error
}

// ErrNoValue says that a key has no value, or none any more.
var ErrNoValue = errors.New("store: no such value")

// ErrRefused is matched by the error of an operation, of any part of a store, that the store has answered and has not done:
// it is full, or only reads, or the user lacks a right. A store that returns it does not count as away, and is asked again.
var ErrRefused = errors.New("store: the operation is refused")
