package resume

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/store"
)

// kept is an event of the model: what the store should have, oldest first.
type kept struct {
	session string
	store.Event
}

// A modelStore says what a bounded store should keep, without any index.
type modelStore struct {
	limits  limits.Limits
	events  []kept
	reached map[string]int
}

func (m *modelStore) sizes(session string) (n, bytes, total int) {
	for _, e := range m.events {
		size := len(e.Data) + eventOverhead
		if total += size; e.session == session {
			n++
			bytes += size
		}
	}
	return n, bytes, total
}

func (m *modelStore) append(session string, e store.Event) bool {
	size := len(e.Data) + eventOverhead
	if size > m.limits.MaxEventBytes || size > m.limits.MaxEventBytesTotal {
		return false
	}
	for {
		n, bytes, total := m.sizes(session)
		limit, oldest := "", func(e kept) bool { return e.session == session }
		switch {
		case n >= m.limits.MaxEvents:
			limit = limits.NameEvents
		case bytes+size > m.limits.MaxEventBytes:
			limit = limits.NameEventBytes
		case total+size > m.limits.MaxEventBytesTotal:
			limit = limits.NameEventBytesTotal
			largest := m.largest(session, size)
			oldest = func(e kept) bool { return ownerOf(e.session) == largest }
		default:
			m.events = append(m.events, kept{session, e})
			return true
		}
		m.reached[limit]++
		i := slices.IndexFunc(m.events, oldest)
		if i < 0 {
			return false
		}
		m.events = slices.Delete(m.events, i, i+1)
	}
}

// ownerOf returns the owner of a session: s0 and s1 belong to one.
func ownerOf(session string) string {
	if session == "s2" {
		return "b"
	}
	return "a"
}

// largest returns the owner that has most with an event more of that size, of several the one
// with the oldest event. The result is "-" if that is an owner without events.
func (m *modelStore) largest(session string, size int) (largest string) {
	shares := map[string]int{ownerOf(session): size}
	var order []string
	for _, e := range m.events {
		o := ownerOf(e.session)
		shares[o] += len(e.Data) + eventOverhead
		if !slices.Contains(order, o) {
			order = append(order, o)
		}
	}
	largest = "-"
	most := 0
	for _, o := range order {
		if shares[o] > most {
			largest, most = o, shares[o]
		}
	}
	if shares[ownerOf(session)] > most {
		largest = "-"
	}
	return largest
}

func (m *modelStore) after(session, stream string, seq uint64) (events []store.Event) {
	for _, e := range m.events {
		if e.session == session && e.Stream == stream && e.Seq > seq {
			events = append(events, e.Event)
		}
	}
	return events
}

// events returns how many events the store keeps.
func (m *Memory) events() (n int) {
	for _, o := range m.owners {
		n += o.events.Len()
	}
	return n
}

// TestMemoryEvents holds the store against the model, over random operations.
func TestMemoryEvents(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		l := limits.Limits{
			MaxEvents: 1 + rnd.IntN(6), MaxEventBytes: 300 + rnd.IntN(1500), MaxEventBytesTotal: 300 + rnd.IntN(4000),
		}.WithDefaults()
		model := &modelStore{limits: l, reached: map[string]int{}}
		reached := map[string]int{}
		memory := NewMemory()
		memory.Bind(l, func(limit string) { reached[limit]++ })
		next := map[string]uint64{}
		for range 200 {
			session, stream := fmt.Sprint("s", rnd.IntN(3)), fmt.Sprint(1+rnd.IntN(3))
			switch op := rnd.IntN(20); {
			case op == 0:
				require.NoError(t, memory.Delete(t.Context(), session))
				model.events = slices.DeleteFunc(model.events, func(e kept) bool { return e.session == session })
			case op < 5:
				seq := rnd.Uint64N(next[session+stream] + 2)
				got, err := memory.After(t.Context(), session, stream, seq)
				require.NoError(t, err)
				want := model.after(session, stream, seq)
				require.True(t, slices.EqualFunc(want, got, func(a, b store.Event) bool {
					return a.Stream == b.Stream && a.Seq == b.Seq && string(a.Data) == string(b.Data) && a.Last == b.Last
				}), "seed %d: after %s %s %d: want %v, got %v", seed, session, stream, seq, want, got)
			default:
				next[session+stream]++
				e := store.Event{
					Stream: stream, Seq: next[session+stream], Data: []byte(strings.Repeat("x", rnd.IntN(400))), Last: rnd.IntN(9) == 0,
				}
				err := memory.appendOf(ownerOf(session), session, e, nil)
				require.Equal(t, model.append(session, e), err == nil, "seed %d", seed)
				if err != nil {
					require.ErrorIs(t, err, store.ErrEventTooLarge)
					next[session+stream]--
				}
			}
			_, _, total := model.sizes("")
			require.Equal(t, total, memory.bytes)
			require.Equal(t, len(model.events), memory.events())
			require.LessOrEqual(t, memory.bytes, l.MaxEventBytesTotal)
		}
		require.Equal(t, model.reached[limits.NameEvents], reached[limits.NameEvents])
		for _, session := range []string{"s0", "s1", "s2"} {
			require.NoError(t, memory.Delete(t.Context(), session))
		}
		require.True(t, memory.Empty())
	}
}

// One owner fills the store through many sessions. The others keep their events.
func TestOwnerOfMostEventsLosesThem(t *testing.T) {
	memory := NewMemory()
	memory.Bind(limits.Limits{MaxEventBytesTotal: 64 << 20}.WithDefaults(), func(string) {})
	put := func(owner, session string, seq uint64, size int) {
		require.NoError(t, memory.appendOf(owner, session, store.Event{Stream: "1", Seq: seq, Data: make([]byte, size)}, nil))
	}
	put("victim", "victim", 1, 3<<20)
	for session := range 75 {
		put("attacker", fmt.Sprint("attacker", session), 1, 1<<20)
	}
	events, err := memory.After(t.Context(), "victim", "1", 0)
	require.NoError(t, err)
	require.Equal(t, 1, len(events))
	require.LessOrEqual(t, memory.Held(), 64<<20)
	put("second", "second", 1, 3<<20)
	put("victim", "victim", 2, 3<<20)
	events, err = memory.After(t.Context(), "victim", "1", 0)
	require.NoError(t, err)
	require.Equal(t, 2, len(events))
}

// The store deletes the oldest events, and says which limit it was.
func TestMemoryEventsAreBounded(t *testing.T) {
	memory := NewMemory()
	var reached []string
	bound := func(l limits.Limits) {
		reached = nil
		memory.Bind(l.WithDefaults(), func(limit string) { reached = append(reached, limit) })
	}
	put := func(session, stream string, seq uint64, size int) error {
		return memory.Append(t.Context(), session, store.Event{Stream: stream, Seq: seq, Data: make([]byte, size)})
	}
	has := func(session, stream string) (seqs []uint64) {
		events, err := memory.After(t.Context(), session, stream, 0)
		require.NoError(t, err)
		for _, e := range events {
			seqs = append(seqs, e.Seq)
		}
		return seqs
	}
	bound(limits.Limits{MaxEventBytesTotal: 3 * eventOverhead})
	require.NoError(t, put("a", "1", 1, 0))
	require.NoError(t, put("b", "1", 1, 0))
	require.NoError(t, put("a", "2", 1, 0))
	require.Empty(t, reached)
	require.NoError(t, put("b", "1", 2, 0))
	require.Empty(t, has("a", "1"))
	require.Equal(t, []uint64{1, 2}, has("b", "1"))
	require.Equal(t, []string{limits.NameEventBytesTotal}, reached)
	require.ErrorIs(t, put("c", "1", 1, 3*eventOverhead), store.ErrEventTooLarge)
	require.Equal(t, []uint64{1, 2}, has("b", "1"), "what cannot be kept pushes nothing out")

	bound(limits.Limits{MaxEvents: 2})
	require.NoError(t, put("b", "2", 1, 0))
	require.Equal(t, []uint64{2}, has("b", "1"), "the oldest of its session")
	require.Equal(t, []uint64{1}, has("a", "2"), "another's stay")
	require.Equal(t, []string{limits.NameEvents}, reached)

	bound(limits.Limits{MaxEventBytes: 2*eventOverhead + 100})
	require.NoError(t, put("b", "2", 2, 100))
	require.Empty(t, has("b", "1"))
	require.Equal(t, []uint64{1, 2}, has("b", "2"))
	require.Equal(t, []string{limits.NameEventBytes}, reached)
}

// Many sessions use the store at once.
func TestMemoryEventsConcurrently(t *testing.T) {
	memory := NewMemory()
	memory.Bind(limits.Limits{MaxEventBytesTotal: 100 * eventOverhead, MaxEvents: 20}.WithDefaults(), func(string) {})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			session := fmt.Sprint(i)
			for n := range uint64(500) {
				_ = memory.Append(t.Context(), session, store.Event{Stream: "1", Seq: n + 1})
				events, _ := memory.After(t.Context(), session, "1", n/2)
				for j := 1; j < len(events); j++ {
					if events[j].Seq != events[j-1].Seq+1 {
						t.Errorf("%d follows %d", events[j].Seq, events[j-1].Seq)
					}
				}
				if n%100 == 99 {
					_ = memory.Delete(t.Context(), session)
				}
			}
		})
	}
	wg.Wait()
	require.True(t, memory.Empty())
}

// Streams of one session that push out each other's events are told of all of them.
func TestEvictionsAreToldConcurrently(t *testing.T) {
	memory := NewMemory()
	memory.Bind(limits.Limits{MaxEvents: 2}.WithDefaults(), nil)
	const streams, events = 4, 200
	var told atomic.Int64
	var wg sync.WaitGroup
	for i := range streams {
		wg.Go(func() {
			for n := range uint64(events) {
				err := memory.appendOf("owner", "session", store.Event{Stream: fmt.Sprint(i), Seq: n + 1}, func(string, uint64, string) { told.Add(1) })
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, streams*events-2, told.Load())
}

// An event takes about what it counts, although it came in a large buffer.
func TestEventsInLargeBuffersTakeWhatTheyCount(t *testing.T) {
	heap := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	m := NewMemory()
	before := heap()
	for seq := range uint64(500) {
		require.NoError(t, m.Append(t.Context(), "session", store.Event{Stream: "1", Seq: seq + 1, Data: append(make([]byte, 0, 64<<10), "{}"...)}))
	}
	require.Less(t, heap()-before, 2*m.Held())
	runtime.KeepAlive(m)
}
