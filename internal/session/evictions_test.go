package session

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A caller over an equal share gets no place of the reserve, so that an eviction alone gives it none.
func TestNewcomerTakesThePlaceOfOneSession(t *testing.T) {
	inWorld(t, limits.Limits{MaxSessions: 1024}, func(w *world) {
		for i := range 960 {
			w.openOver(from(modestAddr), fmt.Sprint("gateway-", i))
		}
		for i := range 20 {
			w.openOver(from(greedyAddr), fmt.Sprint("greedy-", i))
		}
		for i := range 44 {
			w.openOver(from(fmt.Sprint("198.51.100.", i)), fmt.Sprint("one-", i))
		}
		state := func() (used, evicted int) {
			w.settle()
			return w.core.places.Usage().Used, int(w.core.Snapshot().Counters.SessionsClosed[mcp.CauseSessionEvicted])
		}
		used, evicted := state()
		for i := range 5 {
			w.openOver(from(greedyAddr), fmt.Sprint("another-", i))
			nowUsed, nowEvicted := state()
			require.Equal(t, used, nowUsed)
			require.Equal(t, evicted+i+1, nowEvicted)
		}
	})
}

// The place of a session that ends because it is idle is free when endIdle returns.
func TestEvictedSessionHasGivenItsPlace(t *testing.T) {
	inWorld(t, limits.Limits{MaxSessions: 1}, func(w *world) {
		s := w.open("session")
		caller := w.core.Caller(httpConn)
		defer caller.Release()
		require.False(t, w.core.places.TakeFree(caller))
		require.True(t, s.endIdle(mcp.CauseSessionEvicted))
		require.True(t, w.core.places.TakeFree(caller))
		w.core.places.Release(caller)
		require.False(t, s.endIdle(mcp.CauseSessionEvicted), "it has ended")
		require.Zero(t, w.core.places.Usage().Used)
	})
}

// At the cap, clients whose handshakes overlap do not evict each other while other sessions are
// idle. Handshakes beyond a sixteenth of all sessions go first: they displace no others.
func TestHandshakesThatOverlapFinish(t *testing.T) {
	const most = 64
	inWorld(t, limits.Limits{MaxSessions: most}, func(w *world) {
		var idle []*Session
		for i := range most {
			idle = append(idle, w.openOver(from(modestAddr), fmt.Sprint("idle-", i)))
		}
		left := func(all []*Session) (n int) {
			for _, s := range all {
				if !s.Closing() {
					n++
				}
			}
			return n
		}
		full := left(idle) // there is a reserve for other callers
		begin := func(id string) *Session {
			s, reason, err := w.core.Open(from(modestAddr), id)
			require.Nil(t, err, "%v", reason)
			return s
		}
		var beginning []*Session
		for i := range most / handshakeShare {
			beginning = append(beginning, begin(fmt.Sprint("new-", i)))
		}
		require.Equal(t, len(beginning), left(beginning))
		require.Equal(t, full-len(beginning), left(idle))
		for i := range most {
			beginning = append(beginning, begin(fmt.Sprint("flood-", i)))
		}
		require.Equal(t, full-left(beginning), left(idle))
		require.Equal(t, most/handshakeShare+1, left(beginning))
	})
}

// A flood of handshakes from many addresses, with one from each, displaces few users.
func TestHandshakesOfManyCallersDisplaceFew(t *testing.T) {
	const most = 64
	inWorld(t, limits.Limits{MaxSessions: most}, func(w *world) {
		at := func(net, host int) *Conn { return from(fmt.Sprintf("198.51.%d.%d", net, host)) }
		var users []*Session
		for i := range most {
			users = append(users, w.openOver(at(100, i), fmt.Sprint("user-", i)))
		}
		ended := func() (n int) {
			for _, s := range users {
				if s.Closing() {
					n++
				}
			}
			return n
		}
		before := ended() // some places are reserved
		for i := range 3 * most {
			_, reason, err := w.core.Open(at(101, i), fmt.Sprint("flood-", i))
			require.Nil(t, err, "%v", reason)
		}
		require.LessOrEqual(t, ended()-before, most/handshakeShare+1)
		require.Greater(t, ended(), before, "there was room for the flood")
	})
}
