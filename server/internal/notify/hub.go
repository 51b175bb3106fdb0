package notify

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/session"
)

// A Hub knows the feeds of each topic. Publish only notes a change. A goroutine takes it to the
// feeds, so that a burst of changes is handled once; it ends when nothing is left. Publish itself
// takes an event to the feeds, so that all of them get the events in the same order. All methods
// are safe for concurrent use.
//
// Lock order: Hub.mu, then Feed.mu.
type Hub struct {
	core *session.Core
	// overflow counts a notification beyond the limit of its feed.
	overflow func()
	// joined counts the feeds, so that publishing without subscribers costs nothing.
	joined atomic.Int64

	mu        sync.Mutex // guards the rest
	topics    map[Topic]audience
	revisions map[Topic]int64 // of tasks: the last one that was published
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

// join adds a new feed, which posts nothing before its first send. may is explained at [Feed].
// revisions are the revisions that the subscriber may have read of the tasks among the topics. ok is false if there is no room
// for the topics; the feed must leave all the same.
func (h *Hub) join(
	room room, post func(Notification, func()), may func(Notification, Topic) bool, topics []Topic, revisions map[string]int64,
) (f *Feed, ok bool) {
	f = &Feed{
		room: room, post: post, may: may, limit: h.core.Limits().MaxPendingUpdates, overflow: h.overflow, busy: true,
	}
	f.next = f.send
	h.joined.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range topics {
		if !h.subscribe(f, t) {
			return f, false
		}
	}
	for id, revision := range revisions {
		if t := (Topic{Task, id}); len(h.topics[t]) == 1 { // others of its audience may not have heard of that revision
			h.revisions[t] = max(h.revisions[t], revision)
		}
	}
	return f, true
}

// subscribe adds a feed to the audience of a topic, and reports whether there is room for it. The caller must hold h.mu.
func (h *Hub) subscribe(f *Feed, t Topic) bool {
	if f.topics.has(t) {
		return true
	}
	if !f.room.take(t) {
		return false
	}
	f.topics.add(t)
	if h.topics[t] == nil {
		h.topics[t] = audience{}
	}
	h.topics[t][f] = struct{}{}
	return true
}

// unsubscribe removes a feed from the audience of a topic. It returns since when it was there if that is a
// resource. The caller must hold h.mu.
func (h *Hub) unsubscribe(f *Feed, t Topic) (since time.Time) {
	since = f.topics.remove(t)
	f.room.give(t)
	a := h.topics[t]
	if delete(a, f); len(a) == 0 {
		delete(h.topics, t)
		delete(h.revisions, t)
	}
	return since
}

// leave removes a feed, and returns since when it was subscribed to its resources. It must be called once for
// each feed.
func (h *Hub) leave(f *Feed) (resources []time.Time) {
	h.mu.Lock()
	f.left = true
	for t := range f.topics.all() {
		if since := h.unsubscribe(f, t); t.Kind == Resource {
			resources = append(resources, since)
		}
	}
	h.mu.Unlock()
	f.close()
	f.room.caller.Release()
	h.joined.Add(-1)
	return resources
}

// add adds topics to a feed. It returns the name of the limit that is reached: there is no room, or the feed would have more than
// limit resources.
func (h *Hub) add(f *Feed, limit int, topics ...Topic) (reached string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range topics {
		switch {
		case f.topics.has(t), f.left:
		case t.Kind == Resource && f.topics.resources >= limit:
			return limits.NameResourceSubscriptions
		case !h.subscribe(f, t):
			return limits.NameSubscribedBytes
		}
	}
	return ""
}

// remove removes a resource from a feed, and returns since when it had that. It returns false if the feed did
// not have it.
func (h *Hub) remove(f *Feed, t Topic) (since time.Time, there bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if there = f.topics.has(t); there {
		since = h.unsubscribe(f, t)
	}
	return since, there
}

// replaceResources has a feed subscribed to these resources, and to no others. It returns since when it had
// those that it has no more, and whether there was room for all.
func (h *Hub) replaceResources(f *Feed, uris []string) (ended []time.Time, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	ok = true
	if f.left {
		return nil, ok
	}
	wanted := map[string]bool{}
	for _, uri := range uris {
		wanted[uri] = true
	}
	for t := range f.topics.all() {
		if t.Kind == Resource && !wanted[t.Name] {
			ended = append(ended, h.unsubscribe(f, t))
		}
	}
	for _, uri := range uris {
		ok = h.subscribe(f, Topic{Resource, uri}) && ok
	}
	return ended, ok
}

// Refresh tells all subscribers of lists and resources that these may have changed.
func (h *Hub) Refresh() {
	h.mu.Lock()
	var all []Topic
	for t := range h.topics {
		if t.Kind <= Resource {
			all = append(all, t)
		}
	}
	h.mu.Unlock()
	for _, t := range all {
		h.Publish(Notification{Topic: t})
	}
}

// Publish sends a notification to the subscribers of its topic and, for a resource, to those of
// the resources that it is a part of. It does not wait for them. Changes of a task may come in
// any order: a change with an older revision is ignored. Publish reports whether there is a
// subscriber.
func (h *Hub) Publish(n Notification) (wanted bool) {
	if h.joined.Load() == 0 {
		return false
	}
	if n.event() {
		return h.publishEvent(n)
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

// publishEvent adds an event to the feeds of its subscribers, and sends it to those that are not
// busy.
func (h *Hub) publishEvent(n Notification) (wanted bool) {
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

// isNew reports whether a change was not published yet. The caller must hold h.mu.
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

// HasSubscribers reports whether a topic has a subscriber.
func (h *Hub) HasSubscribers(t Topic) bool {
	if h.joined.Load() == 0 {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.topics[t]) > 0
}

// Tasks returns the ids of the tasks that have subscribers. The caller owns the slice.
func (h *Hub) Tasks() (ids []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for t := range h.topics {
		if t.Kind == Task {
			ids = append(ids, t.Name)
		}
	}
	return ids
}

// maxSpread bounds the updates of parts of resources that wait in the hub. Beyond that the update
// of the whole resource waits; these are bounded by the subscriptions.
const maxSpread = 1024

// wanted yields the topics to which a change belongs and that have a subscriber.
// The caller must hold h.mu.
func (h *Hub) wanted(t Topic) func(yield func(Topic) bool) {
	return func(yield func(Topic) bool) {
		t.Wholes(func(whole Topic) bool { return len(h.topics[whole]) == 0 || yield(whole) })
	}
}

// spread takes changes to the feeds until none is left. It calls them without holding the lock.
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
		tell(next[0], told)
	}
}

// maxDeciding bounds the decisions about one change that are made at the same time.
const maxDeciding = 256

// tell takes one change to feeds. Feeds that must be asked whether their subscribers may know of it are asked at the same
// time, because a policy may wait. A change that comes later waits for that.
func tell(n Notification, told []subscribers) {
	var deciding sync.WaitGroup
	places := make(chan struct{}, maxDeciding)
	for _, s := range told {
		for _, f := range s.feeds {
			if f.may == nil {
				f.tell(n, s.as)
				continue
			}
			places <- struct{}{}
			deciding.Go(func() {
				defer func() { <-places }()
				f.tell(n, s.as)
			})
		}
	}
	deciding.Wait()
}

// subscribers are the feeds that get a change because of one topic.
type subscribers struct {
	as    Topic
	feeds []*Feed
}

// subscribers returns a copy of the subscribers of a change, each once. The caller must hold
// h.mu.
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
