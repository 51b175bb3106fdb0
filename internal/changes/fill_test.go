package changes

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// busy is a store with an hour of calls, with so many keys in each step, and the time after it.
func busy(maxBytes, keys int) (s *Store, now time.Time) {
	s = New(maxBytes)
	for step := range 360 {
		now = noon.Add(time.Duration(step) * StepSeconds * time.Second)
		for key := range keys {
			o := call(fmt.Sprint("client-", key%10), "1", fmt.Sprint("tool-", key/10), now)
			o.Running, o.AnswerBytes = time.Duration(10+(step*7+key*13)%17)*time.Millisecond, 1000+(step*5+key*3)%700
			s.Add(o)
		}
	}
	return s, now.Add(StepSeconds * time.Second)
}

// callsIn returns the calls that a history has.
func callsIn(h *History) (n int) {
	for _, k := range h.keys {
		for i := range k.cells {
			n += int(k.cells[i].calls)
		}
	}
	return n
}

// A search takes its part of the bytes of the store and no more: it begins later.
func TestSearchStaysWithinItsBytes(t *testing.T) {
	const maxBytes = 256 << 10
	s, now := busy(maxBytes, 20)
	s.flush(Step(now))
	before := s.Stats()
	var h History
	s.Fill(&h, Step(now), 720)
	require.LessOrEqual(t, h.bytes(), maxBytes/8*searchEighths)
	require.Greater(t, h.bytes(), maxBytes/8*searchEighths/2)
	require.Greater(t, h.From, Step(before.Oldest))
	require.Equal(t, 20*h.steps(), callsIn(&h))
	during := s.Stats()
	require.Equal(t, before.Bytes+h.bytes(), during.Bytes)
	require.LessOrEqual(t, during.Bytes, maxBytes)
	require.Equal(t, maxBytes, during.MaxBytes)
	s.Release()
	require.Equal(t, before, s.Stats())
}

// The next search takes next to no new memory.
func TestSearchUsesItsMemoryAgain(t *testing.T) {
	s, now := busy(DefaultBytes, 50)
	var h History
	search := func() (allocated uint64) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s.Fill(&h, Step(now), 720)
		Find(&h)
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	first := search()
	require.Greater(t, first, uint64(50*360*stepCellBytes))
	require.Less(t, search(), first/5)
	require.Equal(t, 50*360, callsIn(&h))
}

// Keys that made no calls in the steps of a search are not in it.
func TestSearchForgetsKeysThatAreGone(t *testing.T) {
	s := New(DefaultBytes)
	s.Add(call("desk", "1", "refund", noon))
	s.Add(call("cli", "1", "refund", noon.Add(time.Minute)))
	var h History
	s.Fill(&h, Step(noon.Add(2*time.Minute)), 720)
	require.Len(t, h.keys, 2)
	s.Fill(&h, Step(noon.Add(2*time.Minute)), 7)
	require.Len(t, h.keys, 1)
	require.Equal(t, "cli", h.keys[0].Client)
	require.Len(t, h.index, 1)
}

// Two windows have their own calls, and none between them. Windows with too many sums are refused.
func TestWindowsHaveTheirCalls(t *testing.T) {
	s, now := busy(DefaultBytes, 3)
	begin, end := Step(noon), Step(now)
	var h History
	require.NoError(t, s.FillWindows(&h, begin, begin+60, end-30, end))
	require.Equal(t, 3*90, callsIn(&h))
	s, now = busy(256<<10, 20)
	end = Step(now)
	require.ErrorContains(t, s.FillWindows(&h, end-200, end-100, end-100, end), "set max_change_bytes")
	require.NoError(t, s.FillWindows(&h, end-60, end-30, end-30, end))
}
