package changes

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// noon is the beginning of a step.
var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// call is an answered call of a tool at a time.
func call(client, version, tool string, at time.Time) *Observation {
	return &Observation{
		Client: client, Version: version, Subject: "ada", Method: "tools/call", Target: tool, Outcome: OutcomeAnswered,
		At: at.UnixNano(), Took: 30 * time.Millisecond, Queued: time.Millisecond, Running: 20 * time.Millisecond,
		Blocked: 8 * time.Millisecond, Writing: time.Millisecond, RequestBytes: 100, AnswerBytes: 1000,
	}
}

// sums returns the sums of a store by key, from the beginning.
func sums(s *Store, until time.Time) map[Key]Cell {
	all := map[Key]Cell{}
	s.Read(0, Step(until), func(_ int64, info *Info, cell *Cell) {
		sum := all[info.Key]
		sum.Add(cell)
		all[info.Key] = sum
	})
	return all
}

func TestStoreKeepsExactSums(t *testing.T) {
	s := New(DefaultBytes)
	for i := range 100 {
		s.Add(call("desk", "4.2.9", "refund", noon.Add(time.Duration(i)*time.Second)))
	}
	failed := call("desk", "4.3.0", "refund", noon.Add(50*time.Second))
	failed.Outcome, failed.Reason, failed.Phase = "cancelled", "deadline", "blocked"
	s.Add(failed)
	all := sums(s, noon.Add(100*time.Second))
	require.Len(t, all, 2)
	answered := all[Key{Client: "desk", Version: "4.2.9", Principal: "ada", Method: "tools/call", Target: "refund", Outcome: OutcomeAnswered}]
	want := Cell{
		Calls: 100, Took: 3_000_000, Queued: 100_000, Running: 2_000_000, Blocked: 800_000, Writing: 100_000,
		RequestBytes: 10_000, AnswerBytes: 100_000, LogRunning: 100 * logarithm(20_000), LogAnswer: 100 * logarithm(1000),
	}
	require.Equal(t, want, answered)
	cancelled := all[Key{Client: "desk", Version: "4.3.0", Principal: "ada", Method: "tools/call", Target: "refund",
		Outcome: "cancelled", Reason: "deadline", Phase: "blocked"}]
	require.EqualValues(t, 1, cancelled.Calls)
}

// A step is read as soon as it is over, whether or not a later request has come.
func TestStoreReadsStepsThatAreOver(t *testing.T) {
	s := New(DefaultBytes)
	s.Add(call("desk", "1", "refund", noon))
	s.Add(call("desk", "1", "refund", noon.Add(9*time.Second)))
	require.Empty(t, sums(s, noon.Add(9*time.Second)))
	steps := map[int64]uint64{}
	s.Add(call("desk", "1", "refund", noon.Add(25*time.Second)))
	s.Read(0, Step(noon.Add(30*time.Second)), func(step int64, info *Info, cell *Cell) {
		steps[step-Step(noon)] += cell.Calls
		require.True(t, info.First.Equal(noon))
	})
	require.Equal(t, map[int64]uint64{0: 2, 2: 1}, steps)
}

// A flood of names takes neither the history of others nor any request out of the sums.
func TestFloodOfNamesKeepsTheHistoryOfOthers(t *testing.T) {
	const maxBytes = 1 << 20
	s := New(maxBytes)
	now := noon
	calls, regulars := uint64(0), uint64(0)
	for step := range 180 {
		for i := range 40 {
			s.Add(call("desk", "1", fmt.Sprintf("tool-%d", i%4), now.Add(time.Duration(i)*time.Millisecond)))
			regulars++
		}
		s.Add(call("rare", "1", "refund", now)) // less than a name of the flood in one step would have to have
		regulars++
		if step >= 30 {
			for i := range 600 {
				s.Add(call(fmt.Sprintf("bot-%d-%d", step, i), "1", "tool-0", now.Add(time.Second)))
				calls++
			}
		}
		now = now.Add(StepSeconds * time.Second)
		require.LessOrEqual(t, s.Stats().Bytes, maxBytes)
	}
	var all, kept uint64
	s.Read(0, Step(now), func(_ int64, info *Info, cell *Cell) {
		all += cell.Calls
		if info.Client == "desk" || info.Client == "rare" {
			kept += cell.Calls
		}
	})
	require.Equal(t, regulars, kept)
	require.Equal(t, regulars+calls, all)
	stats := s.Stats()
	require.Greater(t, stats.Merged, calls*9/10)
	require.True(t, stats.Oldest.Equal(noon))
}

// A new client that makes many requests gets a key of its own, also while a flood goes on.
func TestBusyClientIsKeptDuringAFlood(t *testing.T) {
	s := New(512 << 10)
	now := noon
	for step := range 100 {
		for i := range 300 {
			s.Add(call(fmt.Sprintf("bot-%d-%d", step, i), "1", "tool-0", now))
		}
		if step >= 90 {
			for range 50 {
				s.Add(call("desk", "4.3.0", "refund", now))
			}
		}
		now = now.Add(StepSeconds * time.Second)
	}
	sum := sums(s, now)[Key{Client: "desk", Version: "4.3.0", Principal: "ada", Method: "tools/call", Target: "refund", Outcome: OutcomeAnswered}]
	require.GreaterOrEqual(t, sum.Calls, uint64(400))
}

// A full store forgets the oldest steps, and the keys that only these have.
func TestFullStoreForgetsTheOldestSteps(t *testing.T) {
	const maxBytes = 128 << 10
	s := New(maxBytes)
	now := noon
	s.Add(call("once", "1", "refund", now))
	for range 2000 {
		for i := range 20 {
			s.Add(call("desk", "1", fmt.Sprintf("tool-%d", i), now))
		}
		now = now.Add(StepSeconds * time.Second)
		require.LessOrEqual(t, s.Stats().Bytes, maxBytes)
	}
	stats := s.Stats()
	require.Greater(t, stats.Oldest, noon.Add(time.Hour))
	require.Equal(t, 20, stats.Keys)
	require.Less(t, stats.Oldest, now.Add(-10*time.Minute))
}

// Hours of an ordinary server fit into the default size: here half of its calls into half of the size.
func TestHoursFitIntoTheDefaultSize(t *testing.T) {
	s := New(DefaultBytes / 2)
	random := rand.New(rand.NewPCG(1, 2))
	now := noon
	for range 3 * 360 {
		for key := range 100 {
			o := call(fmt.Sprintf("client-%d", key%10), "1", fmt.Sprintf("tool-%d", key/10), now)
			for range 1 + random.IntN(5) {
				o.Running = time.Duration(random.ExpFloat64() * float64(50*time.Millisecond))
				o.Took, o.AnswerBytes = o.Running+time.Millisecond, random.IntN(10_000)
				s.Add(o)
			}
		}
		now = now.Add(StepSeconds * time.Second)
	}
	stats := s.Stats()
	t.Logf("100 keys in every step: %v in %d bytes", now.Sub(stats.Oldest), stats.Bytes)
	require.GreaterOrEqual(t, now.Sub(stats.Oldest), 140*time.Minute, "docs/telemetry.md says so")
}

func TestStoreIsSafeForConcurrentUse(t *testing.T) {
	s := New(64 << 10)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 3000 {
				s.Add(call(fmt.Sprint("client-", i%40), fmt.Sprint(g), "tool", noon.Add(time.Duration(i)*50*time.Millisecond)))
			}
		})
	}
	for range 50 {
		sums(s, noon.Add(time.Minute))
		s.Stats()
	}
	wg.Wait()
}

func TestLogarithm(t *testing.T) {
	for n, want := range map[uint64]uint64{0: 0, 1: 16, 2: 24, 3: 32, 1023: 160, 1<<62 - 1: 62 * 16, 3<<61 - 1: 62*16 + 8} {
		require.Equal(t, want, logarithm(n), "%d", n)
	}
}

func TestAddAllocatesNothing(t *testing.T) {
	s := New(DefaultBytes)
	o := call("desk", "4.2.9", "refund", noon)
	s.Add(o)
	require.Zero(t, testing.AllocsPerRun(1000, func() { s.Add(o) }))
}

// BenchmarkAdd measures what a call costs: one key, and 200 keys over steps as time passes.
func BenchmarkAdd(b *testing.B) {
	b.Run("one key", func(b *testing.B) {
		s, o := New(DefaultBytes), call("desk", "4.2.9", "refund", noon)
		b.ReportAllocs()
		for b.Loop() {
			s.Add(o)
		}
	})
	b.Run("200 keys, 5000 calls a second", func(b *testing.B) {
		s, keys := New(DefaultBytes), manyCalls()
		at := noon.UnixNano()
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			o := &keys[i%len(keys)]
			at += int64(time.Second / 5000)
			o.At = at
			s.Add(o)
		}
	})
	b.Run("one key, parallel", func(b *testing.B) {
		s := New(DefaultBytes)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			o := call("desk", "4.2.9", "refund", noon)
			for pb.Next() {
				s.Add(o)
			}
		})
	})
}

func manyCalls() (list []Observation) {
	for i := range 200 {
		list = append(list, *call(fmt.Sprint("client-", i%10), "1.0", fmt.Sprint("tool-", i/10), noon))
	}
	return list
}
