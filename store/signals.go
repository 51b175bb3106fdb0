package store

import (
	"context"
	"errors"
)

// ErrNoReceiver says that nobody listened to the channel of a message when it was published.
var ErrNoReceiver = errors.New("store: nobody listens to the channel")

// Signals carry short messages between the replicas of a server. A message reaches each replica that
// listens to its channel at that moment, also the one that has sent it, at most once. Signals must be
// safe for concurrent use.
//
// Channels have at most 256 bytes, messages at most 8 MiB. The context of Publish has a deadline. An
// implementation that blocks must return then.
type Signals interface {
	// Publish sends a message. If an implementation knows that nobody listens to the channel, it returns an error
	// that matches [ErrNoReceiver], and nil if it does not know: the store has taken the message in both cases, and
	// with the error a message for one replica counts as lost.
	Publish(ctx context.Context, channel string, message []byte) error
	// Listen calls receive with the messages of the channels, until ctx ends, in the order in which
	// each sender has sent them, and one at a time. It returns nil when it listens: each message that
	// is published later reaches receive, or missed is called. It returns an error, within seconds, if
	// it cannot listen, such as when the server is away. Then it has stopped, and the caller may call it
	// again after a pause. Listen may be called several times.
	//
	// After nil it tries by itself to listen again when that has failed. When it listens again it calls
	// missed, once for each time, because messages may have been lost. Until then no call says that
	// messages are lost. receive and missed are not called at the same time, and missed comes before the
	// messages that follow the gap.
	//
	// receive and missed return quickly. The caller owns the message.
	Listen(ctx context.Context, channels []string, receive func(channel string, message []byte), missed func()) error
}
