package server

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/session"
)

func update(uri string) change { return change{resourceUpdated, uri} }

// plain are news that say no more than that a thing has changed.
func plain(c change) news { return news{change: c} }

func changesOf(all []news) (list []change) {
	for _, n := range all {
		list = append(list, n.change)
	}
	return list
}

// A thing is remembered once, in the order in which it was new, and lists go first.
func TestPending(t *testing.T) {
	var p pending
	for _, uri := range []string{"a", "b", "a", "c", "b"} {
		require.True(t, p.add(plain(update(uri)), update(uri), 0))
	}
	for _, kind := range []changeKind{resourcesChanged, toolsChanged, toolsChanged} {
		require.True(t, p.add(plain(change{kind: kind}), change{kind: kind}, 0))
	}
	p.add(plain(change{taskUpdated, "a"}), change{taskUpdated, "a"}, 0) // of another kind
	require.False(t, p.empty())
	require.Equal(t, []change{{kind: toolsChanged}}, changesOf(p.take(nil, 1)))
	require.Equal(t, []change{{kind: resourcesChanged}, update("a"), update("b")}, changesOf(p.take(nil, 3)))
	p.add(plain(update("a")), update("a"), 0) // again: it was taken
	require.Equal(t, []change{update("c"), {taskUpdated, "a"}, update("a")}, changesOf(p.take(nil, 16)))
	require.Empty(t, changesOf(p.take(nil, 16)))
	require.Equal(t, pending{}, p, "an empty one holds no memory")
}

// Beyond the limit the whole resource is remembered for its parts, and nothing is lost.
func TestPendingOverflow(t *testing.T) {
	var p pending
	for i := range 5 {
		part := update(fmt.Sprint("dir/", i))
		require.Equal(t, i < 2, p.add(plain(part), update("dir"), 2), i)
	}
	require.True(t, p.add(plain(update("dir/1")), update("dir"), 2), "it is remembered already")
	require.True(t, p.add(plain(update("other")), update("other"), 2), "what was asked for has room")
	require.True(t, p.add(plain(change{kind: toolsChanged}), change{kind: toolsChanged}, 2), "and so have lists")
	require.Equal(t, []change{{kind: toolsChanged}, update("dir/0")}, changesOf(p.take(nil, 2)))
	require.True(t, p.add(plain(update("dir/9")), update("dir"), 2), "there is room again")
	require.Equal(t, []change{update("dir/1"), update("dir"), update("other"), update("dir/9")}, changesOf(p.take(nil, 16)))
	require.Equal(t, pending{}, p)
}

func TestWholes(t *testing.T) {
	for uri, want := range map[string][]string{
		"test://a":           {"test://a", "test://", "test:/", "test:"},
		"test://a/":          {"test://a/", "test://a", "test://", "test:/", "test:"},
		"test://a/b":         {"test://a/b", "test://a/", "test://a", "test://", "test:/", "test:"},
		"test://a/b?c=d/e#f": {"test://a/b?c=d/e#f", "test://a/b?c=d/e", "test://a/b?c=d/", "test://a/b?c=d", "test://a/b", "test://a/", "test://a", "test://", "test:/", "test:"},
		"urn:isbn:1":         {"urn:isbn:1"},
		"":                   {""},
		"/":                  {"/"},
	} {
		var got []string
		update(uri).wholes(func(c change) bool {
			require.Equal(t, resourceUpdated, c.kind)
			got = append(got, c.name)
			return true
		})
		require.Equal(t, want, got, uri)
	}
	change{taskUpdated, "a/b"}.wholes(func(c change) bool {
		require.Equal(t, "a/b", c.name, "a task has no parts")
		return true
	})
}

// A mailbox is an outlet that keeps what is posted until it is told to be done with it.
type mailbox struct {
	mu       sync.Mutex
	posted   []news
	done     []func()
	most     int // how much there was at once
	overflew int
}

func (m *mailbox) post(n news, done func()) {
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
func (m *mailbox) write() []change {
	m.mu.Lock()
	posted, done := m.posted, m.done
	m.posted, m.done = nil, nil
	m.mu.Unlock()
	for _, f := range done {
		f()
	}
	return changesOf(posted)
}

// members returns what was posted of tasks and not written yet.
func (m *mailbox) members() (all []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range m.posted {
		all = append(all, string(n.members))
	}
	return all
}

// A feed posts nothing while what it has posted is not written.
func TestFeed(t *testing.T) {
	m := &mailbox{}
	f := newFeed(m, 0, nil, 4)
	tools := change{kind: toolsChanged}
	f.tell(plain(tools), tools)
	require.Empty(t, m.posted, "a new feed is held back")
	f.send()
	require.Equal(t, []change{tools}, changesOf(m.posted))
	for range 1000 {
		f.tell(plain(tools), tools)
		f.tell(plain(update("a")), update("a"))
	}
	require.Len(t, m.posted, 1)
	require.Equal(t, []change{tools}, m.write())
	require.Equal(t, []change{tools, update("a")}, m.write(), "each once")
	require.Empty(t, m.write())
	f.tell(plain(tools), tools) // at once again
	require.Equal(t, []change{tools}, m.write())

	for i := range 100 {
		f.tell(plain(update(fmt.Sprint(i))), update(fmt.Sprint(i)))
	}
	var all []change
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

	g := newFeed(m, 0, nil, 4)
	g.send()
	g.tell(plain(tools), tools)
	for i := range 10 {
		g.tell(plain(update(fmt.Sprint("dir/", i))), update("dir"))
	}
	require.Equal(t, 6, m.overflew)
	m.write()
	require.Contains(t, changesOf(m.posted), update("dir"))
}

func testHub() *hub { return newHub(session.New(session.Config{})) }

func (h *hub) feed(m *mailbox, lists uint8, uris ...string) *feed {
	var topics []change
	for _, uri := range uris {
		topics = append(topics, update(uri))
	}
	f := newFeed(m, lists, topics, 100)
	h.join(f)
	f.send()
	return f
}

// settleHub waits until the hub has spread everything.
func settleHub(h *hub) {
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
	feeds := []*feed{
		h.feed(&tools, 1<<toolsChanged), h.feed(&dir, 0, "test://dir"), h.feed(&both, 0, "test://dir", "test://dir/file"),
	}
	told := func(m *mailbox) []change { settleHub(h); return m.write() }
	h.publish(plain(change{kind: toolsChanged}))
	h.publish(plain(change{kind: promptsChanged}))
	require.Equal(t, []change{{kind: toolsChanged}}, told(&tools))
	require.Empty(t, told(&dir))
	h.publish(plain(update("test://dir/file")))
	h.publish(plain(update("test://directory")))
	require.Equal(t, []change{update("test://dir/file")}, told(&dir))
	require.Equal(t, []change{update("test://dir/file")}, told(&both), "once, although it has asked for both")
	require.Empty(t, told(&both))

	require.True(t, h.add(feeds[0], update("test://x"), 1))
	require.True(t, h.add(feeds[0], update("test://x"), 1))
	require.False(t, h.add(feeds[0], update("test://y"), 1))
	h.publish(plain(update("test://x")))
	require.Equal(t, []change{update("test://x")}, told(&tools))
	require.True(t, h.remove(feeds[0], update("test://x")))
	require.False(t, h.remove(feeds[0], update("test://x")))
	h.publish(plain(update("test://x")))
	require.Empty(t, told(&tools))

	for _, f := range feeds {
		h.leave(f)
		require.True(t, h.add(f, update("test://late"), 5), "whoever has left wants nothing")
	}
	h.empty(t)
	h.publish(plain(change{kind: toolsChanged}))
	require.True(t, h.pending.empty(), "nobody wants to know")
}

// empty checks that nobody is left in the hub.
func (h *hub) empty(t *testing.T) {
	h.mu.Lock()
	defer h.mu.Unlock()
	require.Zero(t, h.joined.Load())
	require.Empty(t, h.topics)
	for _, a := range h.lists {
		require.Empty(t, a)
	}
	require.True(t, h.pending.empty())
}

// While updates wait to be spread, parts beyond the bound become the resources that
// somebody has asked for.
func TestHubOverflow(t *testing.T) {
	h := testHub()
	m := &mailbox{}
	defer h.leave(h.feed(m, 0, "test://dir", "test://other"))
	h.spreading = true // nobody spreads
	for i := range 2 * maxSpread {
		h.publish(plain(update(fmt.Sprint("test://dir/", i))))
		h.publish(plain(update(fmt.Sprint("test://nobody/", i))))
	}
	h.publish(plain(update("test://other")))
	require.Len(t, h.pending.updates, maxSpread+2)
	h.spread()
	all := m.write()
	for len(m.posted) > 0 {
		all = append(all, m.write()...)
	}
	require.Contains(t, all, update("test://dir"))
	require.Contains(t, all, update("test://other"))
}

// News of a task come in any order; what is told is the last, or nothing.
func TestNewsOfATask(t *testing.T) {
	h, m := testHub(), &mailbox{}
	topic := change{taskUpdated, "t"}
	f := newFeed(m, 0, []change{topic}, 4)
	require.False(t, h.wants(topic))
	h.join(f)
	require.True(t, h.wants(topic))
	f.send()
	tell := func(revisions ...int64) []string {
		for _, r := range revisions {
			h.publish(news{topic, r, fmt.Appendf(nil, "%d", r)})
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
	require.False(t, h.wants(topic))
	require.Empty(t, h.revisions)

	f = newFeed(m, 0, []change{topic}, 4)
	f.revisions = map[string]int64{"t": 6}
	h.join(f)
	f.send()
	require.Empty(t, tell(5, 6), "its client has read that")
	require.Equal(t, []string{"7"}, tell(7))
	h.leave(f)
}

// Publishing costs next to nothing while nobody listens.
func TestPublishToNobody(t *testing.T) {
	h := testHub()
	require.Zero(t, testing.AllocsPerRun(1000, func() { h.publish(plain(change{kind: toolsChanged})) }))
	defer h.leave(h.feed(&mailbox{}, 1<<promptsChanged))
	require.Zero(t, testing.AllocsPerRun(1000, func() { h.publish(plain(change{kind: toolsChanged})) }))
	require.Zero(t, testing.AllocsPerRun(1000, func() { h.publish(plain(update("test://a/b"))) }))
}

// A versioned outlet notes which version of each thing its reader learns of.
type versioned struct {
	versions *[8]atomic.Int64
	mu       sync.Mutex
	seen     [8]int64
	posts    int
	writes   chan func()
}

func (v *versioned) post(c news, done func()) {
	now := v.versions[things(c.change)].Load()
	v.mu.Lock()
	v.seen[things(c.change)] = now
	v.posts++
	v.mu.Unlock()
	if done != nil {
		v.writes <- done
	}
}

func (v *versioned) overflow() {}

// things numbers what the test changes.
func things(c change) int {
	if c.kind < numLists {
		return int(c.kind)
	}
	return 3 + int(c.name[len(c.name)-1]-'0')
}

func thing(i int) change {
	if i < 3 {
		return change{kind: changeKind(i)}
	}
	return update(fmt.Sprint("test://", i-3))
}

// However changes, slow writers, comings and goings fall together: at rest each reader
// has learned of the last version of everything that it has asked for.
func TestNewestStateReachesEveryReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := testHub()
		var versions [8]atomic.Int64
		var topics []string
		for i := 3; i < 8; i++ {
			topics = append(topics, thing(i).name)
		}
		var readers []*versioned
		var feeds []*feed
		stop := make(chan struct{})
		var writers sync.WaitGroup
		for i := range 50 {
			v := &versioned{versions: &versions, writes: make(chan func(), 1000)}
			readers, feeds = append(readers, v), append(feeds, h.feed2(v, 1<<numLists-1, topics))
			writers.Go(func() { // some are quick and some are slow
				for {
					select {
					case done := <-v.writes:
						time.Sleep(time.Duration(i*i) * time.Microsecond)
						done()
					case <-stop:
						return
					}
				}
			})
		}
		var publishers sync.WaitGroup
		for p := range 4 {
			publishers.Go(func() {
				rng := rand.New(rand.NewPCG(3, uint64(p)))
				for range 2000 {
					i := rng.IntN(8)
					versions[i].Add(1)
					h.publish(plain(thing(i)))
					if rng.IntN(50) == 0 {
						time.Sleep(time.Duration(rng.IntN(100)) * time.Microsecond)
					}
				}
			})
		}
		for range 100 { // others come and go
			f := h.feed2(&versioned{versions: &versions, writes: make(chan func(), 1000)}, 1, topics[:1])
			time.Sleep(10 * time.Microsecond)
			h.leave(f)
		}
		publishers.Wait()
		time.Sleep(time.Second)
		for n, v := range readers {
			v.mu.Lock()
			for i := range versions {
				require.Equal(t, versions[i].Load(), v.seen[i], "reader %d, thing %d", n, i)
			}
			require.Less(t, v.posts, 8000, "coalesced")
			v.mu.Unlock()
		}
		close(stop)
		writers.Wait()
		for _, f := range feeds {
			h.leave(f)
		}
		h.empty(t)
	})
}

func (h *hub) feed2(out outlet, lists uint8, uris []string) *feed {
	var topics []change
	for _, uri := range uris {
		topics = append(topics, update(uri))
	}
	f := newFeed(out, lists, topics, 100)
	h.join(f)
	f.send()
	return f
}

// Comings, goings, changes and writers on real threads, for the race detector.
func TestHubRaces(t *testing.T) {
	h := testHub()
	var workers sync.WaitGroup
	stop := make(chan struct{})
	for p := range 2 {
		workers.Go(func() {
			rng := rand.New(rand.NewPCG(4, uint64(p)))
			for {
				select {
				case <-stop:
					return
				default:
					h.publish(plain(thing(rng.IntN(8))))
				}
			}
		})
	}
	var comers sync.WaitGroup
	for c := range 4 {
		comers.Go(func() {
			rng := rand.New(rand.NewPCG(5, uint64(c)))
			for range 300 {
				m := &mailbox{}
				f := h.feed(m, uint8(rng.IntN(8)), thing(3+rng.IntN(5)).name)
				h.add(f, thing(3+rng.IntN(5)), 3)
				for range rng.IntN(5) {
					m.write()
				}
				h.remove(f, thing(3+rng.IntN(5)))
				h.leave(f)
				m.write()
			}
		})
	}
	comers.Wait()
	close(stop)
	workers.Wait()
	settleHub(h)
	h.empty(t)
}

// Changes are told to all of an audience before the next change, and no lock of the
// hub is held meanwhile: an outlet may come back to it.
func TestOutletMayPublish(t *testing.T) {
	h := testHub()
	told := make(chan change, 10)
	out := outletFunc(func(c news, done func()) {
		if c.kind == toolsChanged {
			h.publish(plain(change{kind: promptsChanged}))
		}
		told <- c.change
		if done != nil {
			done()
		}
	})
	f := h.feed2(out, 1<<numLists-1, nil)
	h.publish(plain(change{kind: toolsChanged}))
	require.Equal(t, []change{{kind: toolsChanged}, {kind: promptsChanged}}, []change{<-told, <-told})
	settleHub(h)
	h.leave(f)
}

type outletFunc func(c news, done func())

func (f outletFunc) post(c news, done func()) { f(c, done) }
func (outletFunc) overflow()                  {}

// BenchmarkFanOut spreads one change to so many listeners whose writers are free.
func BenchmarkFanOut(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			h := testHub()
			out := outletFunc(func(_ news, done func()) { done() })
			feeds := make([]*feed, n)
			for i := range feeds {
				feeds[i] = h.feed2(out, 1<<toolsChanged, nil)
			}
			b.ReportAllocs()
			for b.Loop() {
				h.mu.Lock()
				h.pending.add(plain(change{kind: toolsChanged}), change{kind: toolsChanged}, 0)
				h.mu.Unlock()
				h.spread()
			}
			slices.Values(feeds)(func(f *feed) bool { h.leave(f); return true })
		})
	}
}
