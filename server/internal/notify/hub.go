package notify

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/session"
)

// A Hub knows which feeds want to be told of which topics. A publisher only notes a
// change; a goroutine that lives as long as there is something to spread does
// the work, so that a burst of changes is spread once. An event is noted for each feed by
// its publisher, so that all are told in one order. All methods are safe for concurrent use.
//
// Lock order: Hub.mu, then Feed.mu.
type Hub struct {
	core *session.Core
	// overflow counts a notification that has found no room in its feed.
	overflow func()
	// joined counts the feeds, so that publishing is free without any.
	joined atomic.Int64

	mu        sync.Mutex // guards the rest
	topics    map[Topic]audience
	revisions map[Topic]int64 // of the tasks among the topics: the last one that was told
	pending   latest
	spreading bool
}

// An audience is the set of feeds of one topic.
type audience map[*Feed]struct{}

// NewHub returns a hub without feeds.
func NewHub(core *session.Core) *Hub {
	return &Hub{
		core: core, overflow: func() { core.LimitReached(limits.NamePendingUpdates) },
		topics: map[Topic]audience{}, revisions: map[Topic]int64{},
	}
}

// Joined returns how many feeds there are.
func (h *Hub) Joined() int64 { return h.joined.Load() }

// join enters a new feed, which posts nothing before its first send. revisions are
// those of the tasks among the topics that the subscriber may have read.
func (h *Hub) join(post func(Notification, func()), topics []Topic, revisions map[string]int64) *Feed {
	f := &Feed{
		post: post, limit: h.core.Limits().MaxPendingUpdates, overflow: h.overflow, busy: true, topics: make(map[Topic]struct{}, len(topics)),
	}
	f.next = f.send
	h.joined.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range topics {
		h.seat(f, t)
	}
	for id, revision := range revisions {
		t := Topic{Task, id}
		h.revisions[t] = max(h.revisions[t], revision)
	}
	return f
}

// seat enters a feed in the audience of a topic. The caller must hold h.mu.
func (h *Hub) seat(f *Feed, t Topic) {
	if _, there := f.topics[t]; there {
		return
	}
	f.topics[t] = struct{}{}
	if t.Kind == Resource {
		f.resources++
	}
	if h.topics[t] == nil {
		h.topics[t] = audience{}
	}
	h.topics[t][f] = struct{}{}
}

// unseat is the opposite of seat. The caller must hold h.mu.
func (h *Hub) unseat(f *Feed, t Topic) {
	delete(f.topics, t)
	if t.Kind == Resource {
		f.resources--
	}
	a := h.topics[t]
	if delete(a, f); len(a) == 0 {
		delete(h.topics, t)
		delete(h.revisions, t)
	}
}

// leave takes a feed away, once. It is told nothing more.
func (h *Hub) leave(f *Feed) {
	h.mu.Lock()
	f.left = true
	for t := range f.topics {
		h.unseat(f, t)
	}
	h.mu.Unlock()
	f.close()
	h.joined.Add(-1)
}

// add adds topics to a feed that has joined; false if it would have more than limit
// resources.
func (h *Hub) add(f *Feed, limit int, topics ...Topic) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range topics {
		_, there := f.topics[t]
		switch {
		case there, f.left:
		case t.Kind == Resource && f.resources >= limit:
			return false
		default:
			h.seat(f, t)
		}
	}
	return true
}

// remove takes a topic away from a feed; false if the feed did not have it.
func (h *Hub) remove(f *Feed, t Topic) (there bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, there = f.topics[t]; there {
		h.unseat(f, t)
	}
	return there
}

// Publish tells the subscribers of a topic, and, of a resource, those of what it is a part
// of. It does not wait for them. Changes of a task may come in any order: those that are
// older than what was told already are ignored. Publish reports whether there is a
// subscriber.
func (h *Hub) Publish(n Notification) (wanted bool) {
	if h.joined.Load() == 0 {
		return false
	}
	if n.event() {
		return h.tellAll(n)
	}
	h.mu.Lock()
	if h.isNew(n) {
		for whole := range h.wanted(n.Topic) {
			wanted = true
			h.pending.add(n, whole, maxSpread)
		}
	}
	start := !h.spreading && !h.pending.empty()
	h.spreading = h.spreading || start
	h.mu.Unlock()
	if start {
		h.core.Go(h.spread)
	}
	return wanted
}

// tellAll notes an event for all its subscribers, and sends it to those that are not busy.
func (h *Hub) tellAll(n Notification) (wanted bool) {
	var idle []*Feed
	h.mu.Lock()
	for f := range h.topics[n.Topic] {
		wanted = true
		if f.note(n, n.Topic) {
			idle = append(idle, f)
		}
	}
	h.mu.Unlock()
	for _, f := range idle {
		f.send()
	}
	return wanted
}

// isNew reports whether a change was not told yet. The caller must hold h.mu.
func (h *Hub) isNew(n Notification) bool {
	if n.Kind != Task || len(h.topics[n.Topic]) == 0 {
		return true
	}
	if n.Revision <= h.revisions[n.Topic] {
		return false
	}
	h.revisions[n.Topic] = n.Revision
	return true
}

// Wants reports whether a topic has a subscriber.
func (h *Hub) Wants(t Topic) bool {
	if h.joined.Load() == 0 {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.topics[t]) > 0
}

// maxSpread is how many updates of parts of resources wait to be spread. Beyond that the
// resources themselves are spread, of which there are as many as somebody wants.
const maxSpread = 1024

// wanted yields the topics to which a change belongs and that have a subscriber.
// The caller must hold h.mu.
func (h *Hub) wanted(t Topic) func(yield func(Topic) bool) {
	return func(yield func(Topic) bool) {
		t.wholes(func(whole Topic) bool { return len(h.topics[whole]) == 0 || yield(whole) })
	}
}

// spread tells the feeds until there is nothing left to tell. It holds no lock while it
// does.
func (h *Hub) spread() {
	for {
		h.mu.Lock()
		next := h.pending.take(nil, 1)
		if len(next) == 0 {
			h.spreading = false
			h.mu.Unlock()
			return
		}
		told := h.subscribers(next[0].Topic)
		h.mu.Unlock()
		for _, s := range told {
			for _, f := range s.feeds {
				f.tell(next[0], s.as)
			}
		}
	}
}

// subscribers are the feeds that are told of a change because of one topic.
type subscribers struct {
	as    Topic
	feeds []*Feed
}

// subscribers returns a private copy of those who want to know of a change, each once.
// The caller must hold h.mu.
func (h *Hub) subscribers(t Topic) (all []subscribers) {
	var before []audience
	for topic := range h.wanted(t) {
		all = append(all, subscribers{topic, h.topics[topic].without(before)})
		before = append(before, h.topics[topic])
	}
	return all
}

// without returns the feeds that are in none of the other audiences.
func (a audience) without(others []audience) []*Feed {
	feeds := make([]*Feed, 0, len(a))
	for f := range a {
		if !slices.ContainsFunc(others, func(b audience) bool { _, there := b[f]; return there }) {
			feeds = append(feeds, f)
		}
	}
	return feeds
}
