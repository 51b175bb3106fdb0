package server

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A change is something that subscribers want to know. It says that a thing is not what
// it was, and not what it is now: who learns of it asks. So of any number of changes to
// one thing only the last one matters, and that is what bounds everything here.
type change struct {
	kind changeKind
	name string // URI of the resource that was updated, or id of the task
}

// News are a change and, of a task, what it is now: the members of the notification's
// params but _meta, encoded once for all who are told.
// Of two news of one task the later has the higher revision.
type news struct {
	change
	revision int64
	members  []byte
}

type changeKind uint8

const (
	toolsChanged changeKind = iota
	promptsChanged
	resourcesChanged
	numLists // how many kinds are about a list

	resourceUpdated
	taskUpdated
)

// listChanged returns what tells those who have subscribed to a list. It waits for nobody,
// and costs next to nothing while nobody has.
func (s *Server) listChanged(kind changeKind) func() {
	return func() { _ = s.hub.publish(news{change: change{kind: kind}}) }
}

// ResourceUpdated tells the clients that have subscribed to a resource that it has
// changed. uri may also name a part of a resource, below it or behind a question mark
// or a number sign: for test://dir/file the subscribers of
// test://dir are told. It may be called from any goroutine and does not wait for clients; a
// slow client is told once of several updates that wait for it. An update
// without a subscriber is counted ([mcp.DropNotSubscribed]).
//
// That resources were added or removed is told without this.
func (s *Server) ResourceUpdated(uri string) {
	if !s.hub.publish(news{change: change{resourceUpdated, strings.ToValidUTF8(uri, "\uFFFD")}}) {
		s.core.DropNotification(mcp.NotificationResourcesUpdated, mcp.DropNotSubscribed)
	}
}

// A hub knows who wants to know of what, and spreads changes to them. Publishers only
// note the change; a goroutine that lives as long as there is something to spread does
// the work, so that a burst of changes is spread once.
//
// Lock order: hub.mu, then feed.mu.
type hub struct {
	core *session.Core
	// joined counts the feeds, so that publishing is free without any.
	joined atomic.Int64

	mu        sync.Mutex // guards the rest
	lists     [numLists]audience
	topics    map[change]audience
	revisions map[change]int64 // of the last news of the tasks among the topics
	pending   pending
	spreading bool
}

// An audience are the feeds that want to know of one thing.
type audience map[*feed]struct{}

func newHub(core *session.Core) *hub {
	return &hub{core: core, topics: map[change]audience{}, revisions: map[change]int64{}}
}

// join seats a feed. Its lists and topics must be set.
func (h *hub) join(f *feed) {
	h.joined.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seat(f)
	for topic := range f.topics {
		h.topics[topic] = h.topics[topic].with(f)
	}
	for id, revision := range f.revisions {
		topic := change{taskUpdated, id}
		h.revisions[topic] = max(h.revisions[topic], revision)
	}
}

// enlist seats a feed that has joined for lists, too.
func (h *hub) enlist(f *feed, lists uint8) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if f.lists |= lists; !f.left {
		h.seat(f)
	}
}

// seat seats a feed for its lists. It wants h.mu.
func (h *hub) seat(f *feed) {
	for kind := range numLists {
		if f.lists&(1<<kind) != 0 {
			h.lists[kind] = h.lists[kind].with(f)
		}
	}
}

// leave takes a feed away, once. It is sent nothing more.
func (h *hub) leave(f *feed) {
	h.mu.Lock()
	f.left = true
	for kind := range numLists {
		delete(h.lists[kind], f)
	}
	for topic := range f.topics {
		h.unseat(f, topic)
	}
	h.mu.Unlock()
	f.close()
	h.joined.Add(-1)
}

// add seats a feed that has joined in one more place; false if it has as many topics as
// it may.
func (h *hub) add(f *feed, topic change, limit int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, there := f.topics[topic]; there || f.left {
		return true
	}
	if len(f.topics) >= limit {
		return false
	}
	if f.topics == nil {
		f.topics = map[change]struct{}{}
	}
	f.topics[topic] = struct{}{}
	h.topics[topic] = h.topics[topic].with(f)
	return true
}

// remove is the opposite of add; false if the feed was not there.
func (h *hub) remove(f *feed, topic change) (there bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, there = f.topics[topic]; there {
		h.unseat(f, topic)
		delete(f.topics, topic)
	}
	return there
}

// unseat wants h.mu.
func (h *hub) unseat(f *feed, topic change) {
	a := h.topics[topic]
	if delete(a, f); len(a) == 0 {
		delete(h.topics, topic)
		delete(h.revisions, topic)
	}
}

func (a audience) with(f *feed) audience {
	if a == nil {
		a = audience{}
	}
	a[f] = struct{}{}
	return a
}

// publish notes a change that somebody wants to know of. News of a task may come in any
// order: those that are older than what was told already are none. It is false if nobody
// wants to know.
func (h *hub) publish(c news) (wanted bool) {
	if h.joined.Load() == 0 {
		return false
	}
	h.mu.Lock()
	if c.kind < numLists {
		if wanted = len(h.lists[c.kind]) > 0; wanted {
			h.pending.add(c, c.change, 0)
		}
	} else if h.isNew(c) {
		for whole := range h.wanted(c.change) {
			wanted = true
			h.pending.add(c, whole, maxSpread)
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

// isNew reports whether something is news. The caller holds h.mu.
func (h *hub) isNew(c news) bool {
	if c.kind != taskUpdated || len(h.topics[c.change]) == 0 {
		return true
	}
	if c.revision <= h.revisions[c.change] {
		return false
	}
	h.revisions[c.change] = c.revision
	return true
}

// wants reports whether somebody wants to know of a thing.
func (h *hub) wants(c change) bool {
	if h.joined.Load() == 0 {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.topics[c]) > 0
}

// maxSpread is how many updates of parts of resources wait to be spread. Beyond that the
// resources themselves are spread, of which there are as many as somebody wants.
const maxSpread = 1024

// wanted yields the topics to which a change belongs and that somebody wants to know of.
// The caller holds h.mu.
func (h *hub) wanted(c change) func(yield func(change) bool) {
	return func(yield func(change) bool) {
		c.wholes(func(whole change) bool { return len(h.topics[whole]) == 0 || yield(whole) })
	}
}

// wholes yields what a change is about, and the resources of which it may be a part.
func (c change) wholes(yield func(change) bool) {
	if !yield(c) || c.kind != resourceUpdated {
		return
	}
	for i := len(c.name) - 1; i > 0; i-- {
		switch c.name[i] {
		case '/':
			if i+1 < len(c.name) && !yield(change{c.kind, c.name[:i+1]}) {
				return
			}
			if c.name[i-1] == '/' { // that is the next one
				continue
			}
			fallthrough
		case '?', '#':
			if !yield(change{c.kind, c.name[:i]}) {
				return
			}
		}
	}
}

// spread tells the feeds until there is nothing left to tell. It holds no lock while it
// does.
func (h *hub) spread() {
	for {
		h.mu.Lock()
		next := h.pending.take(nil, 1)
		if len(next) == 0 {
			h.spreading = false
			h.mu.Unlock()
			return
		}
		told := h.listeners(next[0].change)
		h.mu.Unlock()
		for _, l := range told {
			for _, f := range l.feeds {
				f.tell(next[0], l.as)
			}
		}
	}
}

// A listening is who is told of a change because of one topic.
type listening struct {
	as    change
	feeds []*feed
}

// listeners returns a private copy of those who want to know of a change, each once.
// The caller holds h.mu.
func (h *hub) listeners(c change) (all []listening) {
	if c.kind < numLists {
		return []listening{{c, h.lists[c.kind].without(nil)}}
	}
	var before []audience
	for topic := range h.wanted(c) {
		all = append(all, listening{topic, h.topics[topic].without(before)})
		before = append(before, h.topics[topic])
	}
	return all
}

// without returns the feeds that are in none of the other audiences.
func (a audience) without(others []audience) []*feed {
	feeds := make([]*feed, 0, len(a))
	for f := range a {
		if !slices.ContainsFunc(others, func(b audience) bool { return b.has(f) }) {
			feeds = append(feeds, f)
		}
	}
	return feeds
}

func (a audience) has(f *feed) bool {
	_, there := a[f]
	return there
}
