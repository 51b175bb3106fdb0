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
	const rest = `+414 % cancellations (216, 38 % of the calls, before 7.4 % of the calls); 97 % of it: tool refund, client_cancel, phase running (87 %)`
	require.Equal(t, "03:12:20 to 03:20:00: "+rest, c.Text(time.UTC))
	c.Lasts = true
	require.Equal(t, "since 03:12:20 (still so at 03:20:00): "+rest, c.Text(time.UTC))
}
