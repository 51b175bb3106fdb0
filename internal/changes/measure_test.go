package changes

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A lost answer is no call: it changes no rate, share or time of calls.
func TestLostAnswersAreNoCalls(t *testing.T) {
	key := Key{Method: "tools/call", Target: "refund", Outcome: OutcomeExpired}
	for i := range measures {
		_, about := measures[i].of(&key)
		require.Equal(t, measures[i].name == MeasureExpired, about, measures[i].name)
	}
	s, cell := New(DefaultBytes), call("desk", "1", "refund", noon)
	for range 3 {
		s.Add(cell)
	}
	lost := *call("cli", "1", "export", noon)
	lost.Outcome = OutcomeExpired
	for range 5 {
		s.Add(&lost)
	}
	var h History
	s.Fill(&h, Step(noon)+1, 720)
	at := span{from: 0, to: h.steps()}
	require.InDelta(t, 1, h.callsOf([]Part{{DimensionClient, []Value{{Text: "desk"}}}}, at), 0)
	require.InDelta(t, 0, h.callsOf([]Part{{DimensionClient, []Value{{Text: "cli"}}}}, at), 0)
}
