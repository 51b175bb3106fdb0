package notify

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A mailbox keeps what is posted until it is told to be done with it.
type mailbox struct {
	mu       sync.Mutex
	posted   []Notification
	done     []func()
	most     int // how much there was at once
	overflew int
}

func (m *mailbox) post(n Notification, done func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.posted = append(m.posted, n)
	if done != nil {
		m.done = append(m.done, done)
	}
	m.most = max(m.most, len(m.posted))
}

func (m *mailbox) overflow() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.overflew++
}

// write takes what was posted, as a writer does.
func (m *mailbox) write() []Topic {
	m.mu.Lock()
	posted, done := m.posted, m.done
	m.posted, m.done = nil, nil
	m.mu.Unlock()
	for _, f := range done {
		f()
	}
	return topicsIn(posted)
}

// members returns what was posted of tasks and not written yet.
func (m *mailbox) members() (all []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range m.posted {
		all = append(all, string(n.Params))
	}
	return all
}

// A feed posts nothing while its last notifications are not written.
func TestFeed(t *testing.T) {
	m := &mailbox{}
	h := testHub()
	h.overflow = m.overflow
	f := joined(h, m.post, nil, nil, nil)
	tools := Topic{Kind: Tools}
	f.tell(plain(tools), tools)
	require.Empty(t, m.posted, "a new feed is held back")
	f.send()
	require.Equal(t, []Topic{tools}, topicsIn(m.posted))
	for range 1000 {
		f.tell(plain(tools), tools)
		f.tell(plain(update("a")), update("a"))
	}
	require.Len(t, m.posted, 1)
	require.Equal(t, []Topic{tools}, m.write())
	require.Equal(t, []Topic{tools, update("a")}, m.write(), "each once")
	require.Empty(t, m.write())
	f.tell(plain(tools), tools) // at once again
	require.Equal(t, []Topic{tools}, m.write())

	for i := range 100 {
		f.tell(plain(update(fmt.Sprint(i))), update(fmt.Sprint(i)))
	}
	var all []Topic
	for len(m.posted) > 0 {
		all = append(all, m.write()...)
	}
	require.Len(t, all, 100)
	require.Equal(t, maxPosted, m.most)

	f.tell(plain(tools), tools)
	f.tell(plain(update("a")), update("a"))
	f.close()
	m.write()
	f.tell(plain(tools), tools)
	require.Empty(t, m.posted, "a closed feed is silent")

	g := joined(h, m.post, nil, nil, nil)
	g.limit = 4
	g.send()
	g.tell(plain(tools), tools)
	for i := range 10 {
		g.tell(plain(update(fmt.Sprint("dir/", i))), update("dir"))
	}
	require.Equal(t, 6, m.overflew)
	m.write()
	require.Contains(t, topicsIn(m.posted), update("dir"))
}
