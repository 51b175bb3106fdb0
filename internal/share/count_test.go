package share

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCountLeavesAReserve(t *testing.T) {
	callers := NewTable()
	k := callers.Count(32)
	large, small := callerAt(callers, 1), callerAt(callers, 2)
	for k.Allows(large) {
		k.Add(large, 1)
	}
	require.Equal(t, 30, k.Total())
	for range 2 {
		require.True(t, k.Allows(small))
		k.Add(callerAt(callers, 3), 1)
	}
	require.False(t, k.Allows(small))
	k.Add(large, -1)
	require.True(t, k.Allows(small))
	require.False(t, k.Allows(large))
}
