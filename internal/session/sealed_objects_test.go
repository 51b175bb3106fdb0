package session

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
)

// Two objects of one session ask under different ids, so that the response to a question of one does not
// answer a question of the other, and store the events of their streams apart.
func TestObjectsOfOneSessionAreApart(t *testing.T) {
	inWorld(t, limits.Limits{}, func(w *world) {
		id := w.seal()
		first := w.core.allSessions()[0]
		other := newWorld(t, limits.Limits{})
		defer other.end()
		other.core.SealSessions(testRing(t), func(*Session) {})
		second, _, err := other.core.Visit(id, httpConn, nil)
		require.Nil(t, err)
		defer second.Leave()
		require.Equal(t, first.ID(), second.ID())
		require.NotEqual(t, first.outboundID(1), second.outboundID(1))
		require.NotEqual(t, first.storeName(), second.storeName())
		require.Equal(t, first.outboundID(7), first.outboundID(7))
	})
}
