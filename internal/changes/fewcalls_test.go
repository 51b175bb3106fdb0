package changes

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Fewer than twenty calls say nothing, of whatever they are different: one call a minute for an hour, and then calls
// that fail, run for longer and have larger answers, every twenty seconds.
func TestFewCallsSayNothing(t *testing.T) {
	for _, tt := range []struct {
		calls int
		lines bool
	}{{calls: 12}, {calls: 19}, {calls: 60, lines: true}} {
		for _, outcome := range []string{"error", "cancelled", "dropped", "rejected", "caller_error", OutcomeAnswered} {
			t.Run(fmt.Sprint(tt.calls, " ", outcome), func(t *testing.T) {
				s := New(DefaultBytes)
				at := noon
				for ; at.Before(noon.Add(time.Hour)); at = at.Add(time.Minute) {
					s.Add(call("desk", "1", "refund", at))
				}
				for range tt.calls {
					o := call("desk", "1", "refund", at)
					o.Outcome, o.Running, o.AnswerBytes = outcome, o.Running*100, o.AnswerBytes*100
					s.Add(o)
					at = at.Add(20 * time.Second)
				}
				var h History
				s.Fill(&h, Step(at)+1, 720)
				found := Find(&h)
				for i := range found {
					t.Logf("%.1f %s", found[i].Score, found[i].Text(time.UTC))
				}
				require.Equal(t, tt.lines, len(found) > 0)
			})
		}
	}
}

// A minimum of calls holds for windows that a reader has chosen as well.
func TestFewCallsOfChosenWindowsSayNothing(t *testing.T) {
	s := New(DefaultBytes)
	for i := range 60 {
		s.Add(call("desk", "1", "refund", noon.Add(time.Duration(i)*time.Minute)))
	}
	for i := range 12 {
		o := call("desk", "1", "refund", noon.Add(time.Hour+time.Duration(i)*20*time.Second))
		o.Outcome = "error"
		s.Add(o)
	}
	var h History
	from, to := Step(noon.Add(time.Hour)), Step(noon.Add(64*time.Minute))
	require.NoError(t, s.FillWindows(&h, Step(noon), from, from, to))
	require.Empty(t, Compare(&h, Step(noon), from, from, to))
}
