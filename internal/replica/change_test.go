package replica

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// A change that waits counts once, and too many become one.
func TestOutbox(t *testing.T) {
	var o outbox
	require.True(t, o.put(Change{Kind: 1}), "the first has it emptied")
	require.False(t, o.put(Change{Kind: 1}))
	require.False(t, o.put(Change{Kind: 2, Name: "a"}))
	take := func(want ...Change) {
		t.Helper()
		for _, w := range want {
			c, ok := o.take()
			require.True(t, ok)
			require.Equal(t, w, c)
		}
	}
	take(Change{Kind: 1})
	require.False(t, o.put(Change{Kind: 1}), "it may have changed after it was sent")
	take(Change{Kind: 2, Name: "a"}, Change{Kind: 1})
	_, ok := o.take()
	require.False(t, ok)

	require.True(t, o.put(Change{Kind: 1}))
	for i := range maxWaiting + 10 {
		o.put(Change{Kind: 2, Name: strconv.Itoa(i)})
	}
	take(Change{All: true})
	_, ok = o.take()
	require.False(t, ok)

	require.True(t, o.put(Change{Kind: 1}))
	take(Change{Kind: 1})
	o.failed()
	require.True(t, o.put(Change{Kind: 2}), "somebody tries again")
	take(Change{All: true})
}
