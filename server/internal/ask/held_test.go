package ask

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/share"
)

// What answers take is given back when the run of their handler ends, and at once if it comes for a goroutine that the handler has
// left behind.
func TestHeldOfAnswersIsGivenBack(t *testing.T) {
	callers := share.NewTable()
	budget := callers.Bytes(1<<20, nil)
	hold := func(n int64) *share.Held { return budget.Hold(callers.Get(share.Key{}), n) }
	used := func() int64 {
		n, _ := budget.Used()
		return n
	}
	var d Dialog
	d.untilRunEnds(hold(100))
	d.untilRunEnds(hold(30))
	d.untilRunEnds(nil)
	require.EqualValues(t, 130, used())
	d.EndRun()
	require.Zero(t, used())

	d.untilRunEnds(hold(100))
	require.Zero(t, used(), "late")
	d.beginRun()
	d.untilRunEnds(hold(100))
	require.EqualValues(t, 100, used())
	d.EndRun()
	d.EndRun()
	require.Zero(t, used())
}
