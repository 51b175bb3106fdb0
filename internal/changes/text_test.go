package changes

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTextOfAChange(t *testing.T) {
	c := Change{
		Measure: MeasureCancelled, Since: time.Date(2026, 3, 4, 3, 12, 20, 0, time.UTC), Until: time.Date(2026, 3, 4, 3, 20, 0, 0, time.UTC),
		Before: 0.074, After: 0.38, Count: 216, Share: 0.97, Reason: "client_cancel", ReasonShare: 1, Phase: "running", PhaseShare: 0.87,
		Parts: []Part{{DimensionTool, []Value{{"tools/call", "refund"}}}},
	}
	const rest = `+414 % cancellations (216, 38 % of these calls, before 7.4 %); 97 % of the change: tool refund, client_cancel, phase running (87 % of these)`
	require.Equal(t, "03:12:20 to 03:20:00: "+rest, c.Text(time.UTC))
	c.Lasts = true
	require.Equal(t, "since 03:12:20 (still so at 03:20:00): "+rest, c.Text(time.UTC))
}

// A share of all calls does not look like one of the calls that the line names.
func TestTextSaysOfWhichCallsAShareIs(t *testing.T) {
	c := Change{Measure: MeasureErrors, After: 0.5, Count: 48}
	require.Contains(t, c.Text(time.UTC), "new errors (48, 50 % of all calls, before none)")
	c.Parts = []Part{{DimensionTool, []Value{{"tools/call", "refund"}}}}
	require.Contains(t, c.Text(time.UTC), "new errors (48, 50 % of these calls, before none)")
	c.Measure, c.Count = MeasureExpired, 0
	require.Contains(t, c.Text(time.UTC), "new expired answers (0.5 a second, before none)")
}

// Of another version of the client the line says whether it has no such ends or no calls any more.
func TestTextOfOtherVersions(t *testing.T) {
	c := Change{
		Measure: MeasureCallerErrors, After: 1, Count: 80, Share: 1, Parts: []Part{{DimensionVersion, []Value{{"assistant", "2.0.0"}}}},
		Others: []OtherVersion{{Version: "1.9.0"}, {Version: "1.8.0", Value: 0.25, Gone: true}, {Version: "1.7.0", Value: 0.5}},
	}
	require.Contains(t, c.Text(time.UTC), "client assistant 2.0.0 (1.9.0: none of its calls, 1.8.0 calls no more, before 25 % of its calls, 1.7.0: 50 % of its calls)")
	c.Measure, c.After, c.Others = MeasureCalls, 3, c.Others[:2]
	require.Contains(t, c.Text(time.UTC), "(1.9.0: 0 a second, 1.8.0 calls no more, before 0.25 a second)")
}

// A version that fails all its calls has no answers, but calls still.
func TestOtherVersionsThatCallNoMore(t *testing.T) {
	s := New(DefaultBytes)
	add := func(version, outcome string, minute time.Duration) {
		o := call("desk", version, "refund", noon.Add(minute*time.Minute))
		o.Outcome = outcome
		s.Add(o)
	}
	add("1.0", OutcomeAnswered, 0)
	add("1.1", OutcomeAnswered, 0)
	add("1.2", OutcomeAnswered, 0)
	add("1.1", "error", 1)
	add("1.2", OutcomeAnswered, 1)
	add("2.0", OutcomeAnswered, 1)
	var h History
	s.Fill(&h, Step(noon.Add(2*time.Minute)), 12)
	c := Change{measure: &measure{MeasureAnswerBytes, kindMean, 0, 1, answered(callsOf)}, at: span{0, 6, 6, 12},
		Parts: []Part{{DimensionVersion, []Value{{"desk", "2.0"}}}}}
	h.addOthers(&c)
	require.Equal(t, []OtherVersion{{Version: "1.2", Value: 1}, {Version: "1.0", Value: 1, Gone: true}}, c.Others)
}
