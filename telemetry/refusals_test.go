package telemetry_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// Refusals of a server that is no source are counted by reason and middleware. The number of
// middlewares is bounded.
func TestRefusalsAreCounted(t *testing.T) {
	tel, err := telemetry.New()
	require.NoError(t, err)
	refuse := func(reason string) {
		_, op := tel.Begin(t.Context(), telemetry.Info{Method: "tools/call"})
		op.End(telemetry.Outcome{Err: (&mcp.Refusal{Status: 429, Reason: reason, By: "test"}).RPC()})
	}
	for range 2 {
		refuse("quota")
	}
	metric := func() (series int, sum float64) {
		families, err := tel.Registry().Gather()
		require.NoError(t, err)
		for _, f := range families {
			if f.GetName() != telemetry.MetricRefusals {
				continue
			}
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
			series = len(f.GetMetric())
		}
		return series, sum
	}
	series, sum := metric()
	require.Equal(t, 2, series, "with the zero that is always there")
	require.Equal(t, 2.0, sum)
	for i := range 100 {
		refuse(fmt.Sprint("made up ", i))
	}
	series, sum = metric()
	require.Equal(t, 1+64+1, series, "the zero, 64, and _OTHER")
	require.Equal(t, 102.0, sum)
	require.NoError(t, tel.Shutdown(t.Context()))
}
