package share

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// A line of requests that the caller of a test has in a queue.
type waiting struct {
	t       *testing.T
	q       *Queue
	callers *Table
	places  map[string]*Place
}

func newWaiting(t *testing.T, size int) *waiting {
	return &waiting{t, NewQueue(size), NewTable(), map[string]*Place{}}
}

// enter lets the n-th caller wait in a class. It returns whose place that took, "" if it found a
// free one, and "rejected" if there was none.
func (w *waiting) enter(caller int, class, name string) string {
	place, displaced := w.q.Enter(callerAt(w.callers, caller), class, name)
	if place == nil {
		require.Nil(w.t, displaced)
		return "rejected"
	}
	w.places[name] = place
	if displaced == nil {
		return ""
	}
	return displaced.(string)
}

func TestNewcomerDisplacesTheLargestCaller(t *testing.T) {
	w := newWaiting(t, 4)
	for i := range 4 {
		require.Empty(t, w.enter(1, "", fmt.Sprint("a", i)))
	}
	require.Equal(t, "rejected", w.enter(1, "", "a4"))
	require.Equal(t, "a3", w.enter(2, "", "b0"), "the newest one")
	require.Equal(t, "a2", w.enter(2, "", "b1"))
	require.Equal(t, "rejected", w.enter(2, "", "b2"), "they have the same share")
	require.NotEmpty(t, w.enter(3, "", "c0"))
	require.Equal(t, "rejected", w.enter(3, "", "c1"), "it would only change places with another one")
	require.Equal(t, 4, w.q.Len())
	for _, p := range w.places {
		p.Leave() // also those that were displaced
		p.Leave()
	}
	require.Zero(t, w.q.Len())
	require.Empty(t, w.q.classes)
	require.Empty(t, w.q.callers)
}

// A class that is stuck does not fill the queue for the other classes, even if each of its
// requests has another caller.
func TestStuckClassSharesTheQueue(t *testing.T) {
	w := newWaiting(t, 8)
	for i := range 8 {
		require.Empty(t, w.enter(i, "stuck", fmt.Sprint("stuck ", i)))
	}
	require.Equal(t, "rejected", w.enter(8, "stuck", "stuck 8"))
	for i := range 4 {
		require.Contains(t, w.enter(10+i, "", fmt.Sprint("other ", i)), "stuck")
	}
	require.Equal(t, "rejected", w.enter(20, "", "other 4"), "each class has its share")
}

// A caller cannot push out others by spreading over classes.
func TestCallerWithABacklogDisplacesNobodyElsewhere(t *testing.T) {
	w := newWaiting(t, 8)
	for i := range 6 {
		require.Empty(t, w.enter(i, "", fmt.Sprint("modest ", i)))
	}
	require.Empty(t, w.enter(9, "slow", "greedy 0"))
	require.Empty(t, w.enter(9, "slow", "greedy 1"))
	require.Equal(t, "rejected", w.enter(9, "slow", "greedy 2"))
}

// A caller that spreads over classes is not hidden by it.
func TestNewcomerDisplacesACallerWithPlacesInAllClasses(t *testing.T) {
	w := newWaiting(t, 16)
	for i := range 12 {
		require.Empty(t, w.enter(1, fmt.Sprint("class ", i%3), fmt.Sprint("greedy ", i)))
	}
	for i := range 4 {
		require.Empty(t, w.enter(10+i, "", fmt.Sprint("modest ", i)))
	}
	for i := range 11 {
		require.Contains(t, w.enter(20+i, "", fmt.Sprint("newcomer ", i)), "greedy")
	}
	require.Equal(t, "rejected", w.enter(40, "", "one more"), "each has one")
}

func TestQueueWithoutPlaces(t *testing.T) {
	w := newWaiting(t, 0)
	require.Equal(t, "rejected", w.enter(1, "", "a"))
}

// Random orders: the queue never has more than its size, and its tables are empty at the end.
func TestQueueNeverOverflows(t *testing.T) {
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		w := newWaiting(t, 1+rnd.IntN(12))
		for i := range 300 {
			name := fmt.Sprint(i)
			if victim := w.enter(rnd.IntN(5), fmt.Sprint(rnd.IntN(3)), name); victim != "" && victim != "rejected" {
				delete(w.places, victim)
			}
			require.LessOrEqual(t, w.q.Len(), w.q.Size())
			require.Len(t, w.places, w.q.Len())
			if rnd.IntN(3) == 0 {
				for name, p := range w.places {
					p.Leave()
					delete(w.places, name)
					break
				}
			}
		}
		for _, p := range w.places {
			p.Leave()
		}
		require.Zero(t, w.q.Len())
		require.Empty(t, w.q.classes)
		require.Empty(t, w.q.callers)
	}
}
