package resume

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/store"
)

func TestHeldTellsTheOldestEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory()
		l := limits.Limits{MaxEventBytes: 3 * (100 + eventOverhead)}.WithDefaults()
		m.Bind(l, nil)
		add := func(session, stream string, seq uint64) {
			data := []byte(strings.Repeat("x", 100))
			require.NoError(t, m.Append(t.Context(), session, store.Event{Stream: stream, Seq: seq, Data: data}))
		}
		require.Equal(t, Held{}, m.Total())
		require.Equal(t, Held{}, m.of("a"))
		begin := time.Now()
		add("a", "1", 1)
		time.Sleep(time.Minute)
		add("a", "2", 1)
		add("b", "1", 1)
		time.Sleep(time.Minute)
		add("a", "2", 2)
		one := 100 + eventOverhead
		require.Equal(t, Held{Bytes: 3 * one, Events: 3, Streams: 2, Oldest: begin}, at(m.of("a"), begin))
		require.Equal(t, Held{Bytes: one, Events: 1, Streams: 1, Oldest: begin.Add(time.Minute)}, at(m.of("b"), begin))
		require.Equal(t, Held{Bytes: 4 * one, Events: 4, Oldest: begin}, at(m.Total(), begin))

		add("a", "2", 3) // pushes out the first one
		require.Equal(t, Held{Bytes: 3 * one, Events: 3, Streams: 1, Oldest: begin.Add(time.Minute)}, at(m.of("a"), begin))
		require.NoError(t, m.Delete(context.Background(), "a"))
		require.Equal(t, Held{}, m.of("a"))
		require.Equal(t, begin.Add(time.Minute), at(m.Total(), begin).Oldest)
		require.NoError(t, m.Delete(context.Background(), "b"))
		require.Equal(t, Held{}, m.Total())
	})
}

// at returns what is held with a time that has the clock of begin, so that it can be compared.
func at(h Held, begin time.Time) Held {
	h.Oldest = begin.Add(h.Oldest.Sub(begin))
	return h
}
