package ask

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/share"
)

// What an answer holds is given back when the run of its handler ends, when another answer replaces it, and at once if it comes for a
// goroutine that the handler has left behind.
func TestHeldOfAnswersIsGivenBack(t *testing.T) {
	callers := share.NewTable()
	budget := callers.Bytes(1<<20, nil)
	hold := func(n int64) *share.Held { return budget.Hold(callers.Get(share.Key{}), n) }
	used := func() int64 {
		n, _ := budget.Used()
		return n
	}
	var d Dialog
	replaced := hold(100)
	d.Hold(replaced)
	d.Hold(hold(30))
	d.Hold(nil)
	require.Equal(t, 130, d.heldBytes())
	d.giveBack(replaced)
	d.giveBack(replaced)
	d.giveBack(nil)
	require.EqualValues(t, 30, used())
	require.Equal(t, 30, d.heldBytes())
	d.EndRun()
	require.Zero(t, used())

	late := hold(100)
	d.Hold(late)
	d.giveBack(late)
	require.Zero(t, used())
	d.beginRun()
	d.Hold(hold(100))
	require.EqualValues(t, 100, used())
	d.EndRun()
	d.EndRun()
	require.Zero(t, used())
	require.Zero(t, callers.Len(), "callers that somebody refers to")
}

// An answer that comes when the handler has another one takes nothing, and does not take away what that one holds.
func TestAnswerThatIsTooLate(t *testing.T) {
	callers := share.NewTable()
	budget := callers.Bytes(1<<20, nil)
	var d Dialog
	c := checkedAnswer[string]{dialog: &d, decode: func(raw jsontext.Value) (string, *share.Held, error) {
		held := budget.Hold(callers.Get(share.Key{}), int64(len(raw)))
		d.Hold(held)
		return string(raw), held, nil
	}}
	first, second := jsontext.Value(`"first"`), jsontext.Value(`"second one"`)
	require.NoError(t, c.check(first, false))
	require.Zero(t, d.heldBytes(), "it was only looked at")
	require.NoError(t, c.check(second, true))
	require.NoError(t, c.check(first, true))
	require.Equal(t, len(first), d.heldBytes())
	answer, known := c.take(first)
	require.True(t, known)
	require.Equal(t, string(first), answer)
	require.NoError(t, c.check(second, true))
	require.Equal(t, len(first), d.heldBytes())
	d.EndRun()
	n, _ := budget.Used()
	require.Zero(t, n)

	c = checkedAnswer[string]{dialog: &d, decode: c.decode}
	d.beginRun()
	require.NoError(t, c.check(first, true))
	_, known = c.take(second)
	require.False(t, known)
	require.Zero(t, d.heldBytes(), "nobody gets it")
}
