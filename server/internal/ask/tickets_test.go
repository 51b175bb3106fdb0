package ask

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTicketIsUsedOnce(t *testing.T) {
	tickets := newTickets()
	now := time.Now()
	for range 3 * ticketsOfBlock {
		k := tickets.issue(now, now.Add(time.Minute))
		require.True(t, tickets.use(k))
		require.False(t, tickets.use(k))
	}
	require.False(t, tickets.use(ticket{}), "without a name")
	require.False(t, tickets.use(ticket{tickets.process, 1 << 40}), "not issued yet")
	other := newTickets()
	require.False(t, other.use(tickets.issue(now, now.Add(time.Minute))), "of another process")
}

func TestTicketIsUsedOnceAtTheSameTime(t *testing.T) {
	tickets := newTickets()
	k := tickets.issue(time.Now(), time.Now().Add(time.Minute))
	var used atomic.Int64
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			if tickets.use(k) {
				used.Add(1)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 1, used.Load())
}

// Tickets are forgotten when their states have expired, and cannot be used then.
func TestExpiredTicketsAreForgotten(t *testing.T) {
	const life = time.Minute
	tickets := newTickets()
	now := time.Now()
	old := tickets.issue(now, now.Add(life))
	for range 10 * ticketsOfBlock {
		now = now.Add(life / ticketsOfBlock)
		tickets.issue(now, now.Add(life))
		require.LessOrEqual(t, len(tickets.blocks), 3)
	}
	require.False(t, tickets.use(old))
	late := tickets.issue(now.Add(time.Hour), now.Add(time.Hour+life))
	require.Len(t, tickets.blocks, 1)
	require.True(t, tickets.use(late))
}
