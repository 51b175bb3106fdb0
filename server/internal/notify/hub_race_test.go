package notify

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
)

// A versioned reader notes which version of each thing its reader learns of.
type versioned struct {
	versions *[8]atomic.Int64
	mu       sync.Mutex
	seen     [8]int64
	posts    int
	writes   chan func()
}

func (v *versioned) post(c Notification, done func()) {
	now := v.versions[things(c.Topic)].Load()
	v.mu.Lock()
	v.seen[things(c.Topic)] = now
	v.posts++
	v.mu.Unlock()
	if done != nil {
		v.writes <- done
	}
}

// things numbers what the test changes.
func things(c Topic) int {
	if c.Kind < numLists {
		return int(c.Kind)
	}
	return 3 + int(c.Name[len(c.Name)-1]-'0')
}

func thing(i int) Topic {
	if i < 3 {
		return Topic{Kind: Kind(i)}
	}
	return update(fmt.Sprint("test://", i-3))
}

// In the end each reader has learned of the last version of everything that it has subscribed
// to, with slow writers and with feeds that join and leave.
func TestNewestStateReachesEveryReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := testHub()
		var versions [8]atomic.Int64
		var topics []Topic
		for i := range 8 {
			topics = append(topics, thing(i))
		}
		var readers []*versioned
		var feeds []*Feed
		stop := make(chan struct{})
		var writers sync.WaitGroup
		for i := range 50 {
			v := &versioned{versions: &versions, writes: make(chan func(), 1000)}
			readers, feeds = append(readers, v), append(feeds, h.newFeed(v.post, topics...))
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
					h.Publish(plain(thing(i)))
					if rng.IntN(50) == 0 {
						time.Sleep(time.Duration(rng.IntN(100)) * time.Microsecond)
					}
				}
			})
		}
		for range 100 { // others come and go
			f := h.newFeed((&versioned{versions: &versions, writes: make(chan func(), 1000)}).post, thing(0), thing(3))
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

// Feeds join and leave while publishers and writers run, for the race detector.
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
					h.Publish(plain(thing(rng.IntN(8))))
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
				f := h.newFeed(m.post, append(lists(uint8(rng.IntN(8))), thing(3+rng.IntN(5)))...)
				h.add(f, 3, thing(3+rng.IntN(5)))
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

// The whole audience gets a change before the next change. The hub holds no lock meanwhile, so
// that a post function may publish.
func TestPostMayPublish(t *testing.T) {
	h := testHub()
	told := make(chan Topic, 10)
	post := func(c Notification, done func()) {
		if c.Kind == Tools {
			h.Publish(plain(Topic{Kind: Prompts}))
		}
		told <- c.Topic
		if done != nil {
			done()
		}
	}
	f := h.newFeed(post, everyList...)
	h.Publish(plain(Topic{Kind: Tools}))
	require.Equal(t, []Topic{{Kind: Tools}, {Kind: Prompts}}, []Topic{<-told, <-told})
	settleHub(h)
	h.leave(f)
}

// BenchmarkFanOut measures one change for n feeds that are not busy.
func BenchmarkFanOut(b *testing.B) {
	for _, n := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			h := testHub()
			feeds := make([]*Feed, n)
			for i := range feeds {
				feeds[i] = h.newFeed(func(_ Notification, done func()) { done() }, Topic{Kind: Tools})
			}
			b.ReportAllocs()
			for b.Loop() {
				h.mu.Lock()
				h.pending.add(plain(Topic{Kind: Tools}), Topic{Kind: Tools}, 0)
				h.mu.Unlock()
				h.spread()
			}
			slices.Values(feeds)(func(f *Feed) bool { h.leave(f); return true })
		})
	}
}
