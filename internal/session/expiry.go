package session

import (
	"context"
	"errors"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// This file is about streams that end with the token of their caller: the subscriptions of modern HTTP
// exchanges, and what legacy clients read with GET. Calls in progress run on. On a byte stream nobody
// could send another token.

// Streams that can end with their token, as labels of metrics.
const (
	StreamListen = "listen" // subscriptions/listen
	StreamGet    = "get"    // GET, also to resume a stream
)

// ExpiringStreams lists these streams. The caller owns the slice.
func ExpiringStreams() []string { return []string{StreamListen, StreamGet} }

// ErrTokenExpired is the cause with which the context of a stream ends whose token has expired.
var ErrTokenExpired = errors.New("the token has expired")

// UntilExpiry returns a context that ends with the credentials of the exchange, if they expire, with the
// cause [ErrTokenExpired].
func (c *Conn) UntilExpiry(ctx context.Context) (context.Context, context.CancelFunc) {
	if c == nil || c.Protocol == "" || c.Principal == nil || c.Principal.Expires.IsZero() {
		return ctx, func() {}
	}
	// Not context.WithDeadline: ctx may say a deadline that does not hold any more, see Acknowledge.
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(time.Until(c.Principal.Expires), func() { cancel(ErrTokenExpired) })
	return ctx, func() {
		timer.Stop()
		cancel(context.Canceled)
	}
}

// Expired reports whether the credentials of the exchange have expired.
func (c *Conn) Expired() bool {
	return c != nil && c.Principal != nil && !c.Principal.Expires.IsZero() && !time.Now().Before(c.Principal.Expires)
}

// StreamExpired counts and logs that the stream of a session has ended with its token. conn must have a principal.
func (s *Session) StreamExpired(conn *Conn) { s.core.streamExpired(StreamGet, conn, nil, s) }

func (c *Core) streamExpired(stream string, conn *Conn, in *Inbound, s *Session) {
	c.ledger.count(func(t *tally) { t.StreamsExpired[stream]++ })
	c.logger.Info("stream.expired", append(c.PeerAttrs(conn, in, s), "stream", stream, "reason", mcp.EndTokenExpired,
		"expired", conn.Principal.Expires.UTC().Format(time.RFC3339))...)
}

// EndWithToken ends a subscription whose token has expired.
func (r *Request) EndWithToken() {
	r.expired.Store(true)
	r.core.streamExpired(StreamListen, r.Conn, r.Inbound, r.session)
}
