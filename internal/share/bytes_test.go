package share

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLoneCallerLeavesTheReserveOfBytes(t *testing.T) {
	callers := NewTable()
	b := callers.Bytes(1600, func(*Caller, int64) {})
	lone, other := callerAt(callers, 1), callerAt(callers, 2)
	require.True(t, b.Take(lone, 1500))
	require.False(t, b.Take(lone, 1))
	require.False(t, b.Take(other, 101))
	require.True(t, b.Take(other, 100))
	require.Equal(t, int64(1500), b.Held(lone))
	used, n := b.Used()
	require.Equal(t, int64(1600), used)
	require.Equal(t, 2, n)
	b.Give(lone, 1500)
	b.Give(other, 100)
	used, n = b.Used()
	require.Zero(t, used)
	require.Zero(t, n)
	require.False(t, b.Take(lone, 1601))
}

// What is refused cannot be taken, and nobody is told to give something back for it.
func TestRefusedBytesCannotBeTaken(t *testing.T) {
	for name, shed := range map[string]func(*Caller, int64){"without shedding": nil, "with shedding": func(*Caller, int64) {}} {
		t.Run(name, func(t *testing.T) {
			callers, told := NewTable(), false
			if shed != nil {
				shed = func(*Caller, int64) { told = true }
			}
			b := callers.Bytes(1<<20, shed)
			refused := 0
			for range 10_000 {
				c, n := callerAt(callers, rand.IntN(5)), rand.Int64N(64<<10)
				if held := b.Held(c); rand.IntN(3) == 0 && held > 0 {
					b.Give(c, rand.Int64N(held+1))
				}
				told = false
				refuses := b.Refuses(c, n)
				takes := b.Take(c, n)
				if refuses {
					refused++
					require.False(t, takes || told)
				} else if shed == nil {
					require.True(t, takes)
				}
			}
			require.NotZero(t, refused)
		})
	}
}

// Callers that keep all they get leave something to some more like them: a message of 4 MiB passes
// beside seven of them.
func TestCallersThatKeepTheirBytesLeaveSomeToOthers(t *testing.T) {
	callers := NewTable()
	const size, message = 256 << 20, 4 << 20
	b := callers.Bytes(size, nil)
	takeAll := func(c *Caller) (n int64) {
		for step := int64(message); step > 0; step /= 2 {
			for b.Take(c, step) {
				n += step
			}
		}
		return n
	}
	left := int64(size / 4)
	require.EqualValues(t, size-left, takeAll(callerAt(callers, 0)))
	for i := range 20 {
		other := callerAt(callers, 100)
		passes := b.Take(other, message)
		require.Equal(t, i < 7, passes, "beside %d callers", i+1)
		if passes {
			b.Give(other, message)
		}
		n := takeAll(callerAt(callers, 1+i))
		require.LessOrEqual(t, n, left/4)
		require.GreaterOrEqual(t, n, left/6)
		left -= n
	}
	require.False(t, b.Take(callerAt(callers, 100), 1+left/4))
	for i := range 10 {
		require.True(t, b.Take(callerAt(callers, 200+i), smallest))
	}
}

func TestLargestCallerIsToldToShed(t *testing.T) {
	callers := NewTable()
	var b *Bytes
	var told []*Caller
	b = callers.Bytes(1600, func(largest *Caller, need int64) {
		told = append(told, largest)
		b.Give(largest, need)
	})
	large, medium, small := callerAt(callers, 1), callerAt(callers, 2), callerAt(callers, 3)
	require.True(t, b.Take(large, 1400))
	require.True(t, b.Take(medium, 200))
	require.True(t, b.Take(small, 300))
	require.Equal(t, []*Caller{large}, told)
	require.Equal(t, int64(1100), b.Held(large))
	require.False(t, b.Take(large, 100), "a large caller cannot push out others")
	require.False(t, b.Take(small, 200), "nor can one that would have more than its share")
	require.Len(t, told, 1)
}

// A caller that sheds nothing, or is the largest one itself, changes nothing.
func TestSheddingMayFail(t *testing.T) {
	callers := NewTable()
	b := callers.Bytes(1600, func(*Caller, int64) {})
	large, small := callerAt(callers, 1), callerAt(callers, 2)
	require.True(t, b.Take(large, 1500))
	require.True(t, b.Take(small, 100))
	require.False(t, b.Take(small, 1))
}

func TestBytesAddUp(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	callers := NewTable()
	b := callers.Bytes(10_000, nil)
	held := make([]int64, 6)
	all := make([]*Caller, len(held))
	for i := range all {
		all[i] = callerAt(callers, i)
	}
	for range 20_000 {
		i, n := rnd.IntN(len(all)), int64(rnd.IntN(2000))
		if rnd.IntN(2) == 0 && b.Take(all[i], n) {
			held[i] += n
		} else if n = min(n, held[i]); n > 0 {
			b.Give(all[i], n)
			held[i] -= n
		}
		var sum, largest int64
		for i := range held {
			sum += held[i]
			largest = max(largest, held[i])
			require.Equal(t, held[i], b.Held(all[i]))
		}
		used, _ := b.Used()
		require.Equal(t, sum, used)
		require.LessOrEqual(t, used, b.Size())
		if l := b.largest(); largest > 0 {
			require.GreaterOrEqual(t, 2*l.n, largest)
		} else {
			require.Nil(t, l)
		}
	}
}
