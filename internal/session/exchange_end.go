package session

import (
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// An ExchangeEnd is the end of an event stream over HTTP, or of an exchange whose peer has left before
// its answer was written.
type ExchangeEnd struct {
	Conn    *Conn
	Request *Request            // of a POST; nil for a GET and a batch
	Session *Session            // nil if there is none
	Header  map[string][]string // of the exchange
	Kind    string              // one of [StreamKinds]; "" if the exchange was no event stream
	Reason  string              // one of [StreamEnds]
	Age     time.Duration
}

// The kinds of event streams over HTTP.
const (
	StreamAnswer       = "answer"       // a POST whose answer became an event stream
	StreamSubscription = "subscription" // a POST of subscriptions/listen
	StreamStanding     = "session"      // a GET: the stream of a legacy session
	StreamResumed      = "resumed"      // a GET that goes on after an event
)

// StreamKinds lists the kinds. The caller owns the slice.
func StreamKinds() []string {
	return []string{StreamAnswer, StreamSubscription, StreamStanding, StreamResumed}
}

// Why event streams end.
const (
	StreamDone         = "done"          // all was written: the answer, or what is before a poll
	StreamPeerLeft     = "peer_left"     // the peer closed the connection
	StreamWriteTimeout = "write_timeout" // the peer did not read
	StreamOverload     = "overload"      // others needed the memory
	StreamTokenExpired = "token_expired"
	StreamSessionEnded = "session_ended"
	StreamReplaced     = "replaced" // by another connection of the client
	StreamOperator     = "operator" // an operator has ended the subscription, or the stream of a session
	StreamShutdown     = "server_shutdown"
	StreamFailed       = "error"
)

// StreamEnds lists the reasons. The caller owns the slice.
func StreamEnds() []string {
	return []string{
		StreamDone, StreamPeerLeft, StreamWriteTimeout, StreamOverload, StreamTokenExpired, StreamSessionEnded,
		StreamReplaced, StreamOperator, StreamShutdown, StreamFailed,
	}
}

// StreamEndOf returns why a stream has ended that has failed for a reason.
func StreamEndOf(reason mcp.DropReason) string {
	switch reason {
	case mcp.DropWriteTimeout:
		return StreamWriteTimeout
	case mcp.DropOverload:
		return StreamOverload
	case mcp.DropSessionGone:
		return StreamSessionEnded
	case mcp.DropBrokenPeer, mcp.DropStreamGone:
		return StreamPeerLeft
	}
	return StreamFailed
}
