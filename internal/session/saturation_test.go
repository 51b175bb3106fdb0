package session

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/share"
)

// A request finds the queue full. Before it has noted that, all others leave the queue, and none
// comes any more. The queue is not full, although all slots are held.
func TestQueueThatEmptiesWhileItOverflowsIsNotFull(t *testing.T) {
	var s saturation
	queue, slots := share.NewQueue(4), share.NewPool(1)
	require.NoError(t, slots.Acquire(context.Background(), new(share.Caller)))
	now := time.Now()
	s.overflow(queue, func() time.Time { return now })
	require.Zero(t, s.check(now.Add(time.Minute), slots, 5*time.Second))
}
