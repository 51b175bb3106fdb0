package notify

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/session"
)

func testHub() *Hub { return NewHub(session.New(session.Config{})) }

// lists are the topics of lists, a bit for each kind.
func lists(bits uint8) (topics []Topic) {
	for kind := range numLists {
		if bits&(1<<kind) != 0 {
			topics = append(topics, Topic{Kind: kind})
		}
	}
	return topics
}

// everyList has all the topics of lists.
var everyList = lists(1<<numLists - 1)

// joined returns a feed that has joined.
func joined(h *Hub, post func(Notification, func()), may func(Notification, Topic) bool, topics []Topic, revisions map[string]int64) *Feed {
	f, _ := h.join(h.roomOf(h.core.Caller(nil)), post, may, topics, revisions)
	return f
}

// newFeed returns a feed that has begun.
func (h *Hub) newFeed(post func(Notification, func()), topics ...Topic) *Feed {
	f := joined(h, post, nil, topics, nil)
	f.send()
	return f
}

// settleHub waits until the hub has spread everything.
func settleHub(h *Hub) {
	for {
		h.mu.Lock()
		spreading := h.spreading
		h.mu.Unlock()
		if !spreading {
			return
		}
		time.Sleep(time.Microsecond)
	}
}

func TestHub(t *testing.T) {
	h := testHub()
	var tools, dir, both mailbox
	feeds := []*Feed{
		h.newFeed(tools.post, Topic{Kind: Tools}), h.newFeed(dir.post, update("test://dir")),
		h.newFeed(both.post, update("test://dir"), update("test://dir/file")),
	}
	told := func(m *mailbox) []Topic { settleHub(h); return m.write() }
	h.Publish(plain(Topic{Kind: Tools}))
	h.Publish(plain(Topic{Kind: Prompts}))
	require.Equal(t, []Topic{{Kind: Tools}}, told(&tools))
	require.Empty(t, told(&dir))
	h.Publish(plain(update("test://dir/file")))
	h.Publish(plain(update("test://directory")))
	require.Equal(t, []Topic{update("test://dir/file")}, told(&dir))
	require.Equal(t, []Topic{update("test://dir/file")}, told(&both), "once, although it has asked for both")
	require.Empty(t, told(&both))

	require.Empty(t, h.add(feeds[0], 1, update("test://x")))
	require.Empty(t, h.add(feeds[0], 1, update("test://x")))
	require.Equal(t, "max_resource_subscriptions", h.add(feeds[0], 1, update("test://y")))
	h.Publish(plain(update("test://x")))
	require.Equal(t, []Topic{update("test://x")}, told(&tools))
	_, there := h.remove(feeds[0], update("test://x"))
	require.True(t, there)
	_, there = h.remove(feeds[0], update("test://x"))
	require.False(t, there)
	h.Publish(plain(update("test://x")))
	require.Empty(t, told(&tools))

	for _, f := range feeds {
		h.leave(f)
		require.Empty(t, h.add(f, 5, update("test://late")), "a feed that has left takes no changes")
	}
	h.empty(t)
	h.Publish(plain(Topic{Kind: Tools}))
	require.True(t, h.pending.empty(), "nobody wants to know")
}

// empty checks that nobody is left in the hub.
func (h *Hub) empty(t *testing.T) {
	h.mu.Lock()
	defer h.mu.Unlock()
	require.Zero(t, h.joined.Load())
	require.Empty(t, h.topics)
	require.True(t, h.pending.empty())
}

// If too many parts of resources wait in the hub, their resources wait instead.
func TestHubOverflow(t *testing.T) {
	h := testHub()
	m := &mailbox{}
	defer h.leave(h.newFeed(m.post, update("test://dir"), update("test://other")))
	h.spreading = true // nobody spreads
	for i := range 2 * maxSpread {
		h.Publish(plain(update(fmt.Sprint("test://dir/", i))))
		h.Publish(plain(update(fmt.Sprint("test://nobody/", i))))
	}
	h.Publish(plain(update("test://other")))
	require.Len(t, h.pending.updates, maxSpread+2)
	h.spread()
	all := m.write()
	for len(m.posted) > 0 {
		all = append(all, m.write()...)
	}
	require.Contains(t, all, update("test://dir"))
	require.Contains(t, all, update("test://other"))
}

// Changes of a task may come in any order. Only the newest is sent.
func TestTaskChangesFollowTheRevision(t *testing.T) {
	h, m := testHub(), &mailbox{}
	topic := Topic{Task, "t"}
	require.False(t, h.HasSubscribers(topic))
	f := joined(h, m.post, nil, []Topic{topic}, nil)
	require.True(t, h.HasSubscribers(topic))
	f.send()
	tell := func(revisions ...int64) []string {
		for _, r := range revisions {
			h.Publish(Notification{Topic: topic, Revision: r, Params: fmt.Appendf(nil, "%d", r)})
			settleHub(h)
		}
		return m.members()
	}
	require.Equal(t, []string{"1"}, tell(1), "at once")
	require.Equal(t, []string{"1"}, tell(3, 2, 4, 3), "while it is written")
	m.write()
	require.Equal(t, []string{"4"}, tell(), "the last one, once")
	m.write()
	require.Empty(t, tell(2, 4), "older than what was told")
	h.leave(f)
	require.False(t, h.HasSubscribers(topic))
	require.Empty(t, h.revisions)

	f = joined(h, m.post, nil, []Topic{topic}, map[string]int64{"t": 6})
	f.send()
	require.Empty(t, tell(5, 6), "its client has read that")
	require.Equal(t, []string{"7"}, tell(7))
	h.leave(f)
}

// A new subscriber of a task may have read a revision that is not published yet. The others hear of it all the same.
func TestNewSubscriberDoesNotHideARevision(t *testing.T) {
	h, m := testHub(), &mailbox{}
	topic := Topic{Task, "t"}
	first := joined(h, m.post, nil, []Topic{topic}, map[string]int64{"t": 5})
	first.send()
	second := joined(h, (&mailbox{}).post, nil, []Topic{topic}, map[string]int64{"t": 6})
	second.send()
	h.Publish(Notification{Topic: topic, Revision: 6, Params: []byte("6")})
	settleHub(h)
	require.Equal(t, []string{"6"}, m.members())
	h.leave(first)
	h.leave(second)
}

// Publish without subscribers costs no allocation.
func TestPublishWithoutSubscribersAllocatesNothing(t *testing.T) {
	h := testHub()
	require.Zero(t, testing.AllocsPerRun(1000, func() { h.Publish(plain(Topic{Kind: Tools})) }))
	defer h.leave(h.newFeed(new(mailbox).post, Topic{Kind: Prompts}))
	require.Zero(t, testing.AllocsPerRun(1000, func() { h.Publish(plain(Topic{Kind: Tools})) }))
	require.Zero(t, testing.AllocsPerRun(1000, func() { h.Publish(plain(update("test://a/b"))) }))
}
