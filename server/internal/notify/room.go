package notify

import (
	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/share"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A room is what the topics of one feed take of max_subscribed_bytes, which callers share. The hub keeps the names of
// resources and tasks as long as there are subscribers.
type room struct {
	pool   *share.Pool
	caller *share.Caller // a reference of the feed's own
}

// roomOf returns the room of a feed. It takes over the reference to the caller.
func (h *Hub) roomOf(caller *share.Caller) room { return room{h.core.Subscribed(), caller} }

// topicBytes is what a topic takes beside its name, at most.
const topicBytes = 512

// bytes returns what a subscription to a topic takes. That of a list or an extension is a part of its session or request.
func (t Topic) bytes() int {
	if t.Kind != Resource && t.Kind != Task {
		return 0
	}
	return topicBytes + len(t.Name)
}

func (r room) take(t Topic) bool { return t.bytes() == 0 || r.pool.TryAcquireN(r.caller, t.bytes()) }

func (r room) give(t Topic) {
	if n := t.bytes(); n > 0 {
		r.pool.ReleaseN(r.caller, n)
	}
}

// noRoom returns the error of a client that finds no room for what it subscribes to.
func (s *Subscriptions) noRoom() *mcp.Error {
	s.core.LimitReached(limits.NameSubscribedBytes)
	return session.Overload(limits.NameSubscribedBytes)
}
