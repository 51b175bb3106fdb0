package server_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// A flood of initialize and DELETE leaves as many tombstones in the store as the replica remembers deletions,
// and those of other callers stay.
func TestTombstonesInTheStoreAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const remembered, flood = 4, 20
		a, b, shared := replicas(t, server.WithLimits(server.Limits{MaxDeletedSessions: remembered}))
		synctest.Wait()
		who := "Authorization: " + annsToken
		anns := open(t, a, who)
		require.Equal(t, 204, send(a, http.MethodDelete, "", anns, who).Code)
		var sessions []string
		for range flood {
			session := open(t, a)
			require.Equal(t, 204, send(a, http.MethodDelete, "", session).Code)
			sessions = append(sessions, session)
		}
		synctest.Wait()
		late := newReplica(t, server.WithStore(shared.store()))
		defer late.Shutdown(t.Context())
		call := legacy(2, "tools/call", callPeer)
		for _, srv := range []*server.Server{a, b, late} {
			require.Equal(t, 404, post(srv, call, anns, who).Code, "it has ended for all")
		}
		ended := 0
		for i, session := range sessions {
			code := post(late, call, session).Code
			require.True(t, code == 404 || i < flood-1, "the latest one has ended")
			if code == 404 {
				ended++
			}
		}
		require.LessOrEqual(t, ended, remembered)
	})
}

// A replica that knows of a deletion elsewhere, by a signal or because it has asked the store, remembers it through a
// flood of another caller's deletions there, also while the store is away.
func TestTombstonesOfOtherReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		few := server.WithLimits(server.Limits{MaxDeletedSessions: 3})
		a, b, shared := replicas(t, few)
		synctest.Wait()
		ann, greedy := "Authorization: "+annsToken, "Authorization: "+strangers["another subject"]
		anns := open(t, a, ann)
		require.Equal(t, 204, send(a, http.MethodDelete, "", anns, ann).Code)
		synctest.Wait()
		late := newReplica(t, few, server.WithStore(shared.store()))
		defer late.Shutdown(t.Context())
		call := legacy(2, "tools/call", callPeer)
		require.Equal(t, 404, post(late, call, anns, ann).Code)
		for range 5 {
			require.Equal(t, 204, send(a, http.MethodDelete, "", open(t, a, greedy), greedy).Code)
			synctest.Wait()
		}
		shared.fail(errors.New("down"))
		for _, srv := range []*server.Server{b, late} {
			require.Equal(t, 404, post(srv, call, anns, ann).Code)
		}
	})
}

// A session that is deleted at one replica has ended at all, also at one that sees it later.
func TestDeleteAtAnotherReplica(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, shared *sharedMemory) {
		session := open(t, a)
		call := legacy(2, "tools/call", callPeer)
		require.Equal(t, 200, post(b, call, session).Code)
		require.Equal(t, 204, send(a, http.MethodDelete, "", session).Code)
		synctest.Wait()
		for _, srv := range []*server.Server{a, b} {
			require.Equal(t, 404, post(srv, call, session).Code)
		}
		late := newReplica(t, server.WithStore(shared.store()))
		defer late.Shutdown(context.Background())
		require.Equal(t, 404, post(late, call, session).Code)
	})
}

// A deletion while the store is away is told when it is back, also if only one operation has failed.
func TestDeleteWhileTheStoreIsAway(t *testing.T) {
	for _, long := range []bool{true, false} {
		inReplicas(t, func(t *testing.T, a, b *server.Server, shared *sharedMemory) {
			session := open(t, a)
			call := legacy(2, "tools/call", callPeer)
			require.Equal(t, 200, post(b, call, session).Code)
			synctest.Wait() // an operation that succeeds late would count as the end of the outage
			shared.fail(errors.New("down"))
			require.Equal(t, 204, send(a, http.MethodDelete, "", session).Code)
			require.Equal(t, 404, post(a, call, session).Code)
			require.Equal(t, 200, post(b, call, session).Code, "it does not know")
			if long {
				for range 10 {
					require.Equal(t, 200, post(a, call, open(t, b)).Code, "a session begins, and goes on elsewhere")
				}
				shared.used()
				require.Equal(t, 200, post(a, call, open(t, b)).Code)
				require.Zero(t, shared.used(), "the store is not asked any more")
			}
			shared.fail(nil)
			time.Sleep(time.Minute)
			require.Equal(t, 404, post(b, call, session).Code)
		})
	}
}

// A replica that has not heard of a deletion finds it when it shares a change of the session, and remembers it.
func TestDeletionThatAReplicaFindsInTheStore(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, shared *sharedMemory) {
		session := open(t, a)
		call := legacy(2, "tools/call", callPeer)
		require.Equal(t, 200, post(b, call, session).Code)
		shared.drop(true)
		require.Equal(t, 204, send(a, http.MethodDelete, "", session).Code)
		post(b, legacy(3, "logging/setLevel", `"level":"debug"`), session)
		shared.fail(errors.New("down"))
		require.Equal(t, 404, post(b, call, session).Code)
		shared.fail(nil)
	})
}

// A deletion of an outage that ends later than its process is known to nobody: other replicas go on to serve the session.
func TestDeleteOfAnOutageEndsWithItsProcess(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, shared *sharedMemory) {
		session := open(t, a)
		synctest.Wait()
		shared.fail(errors.New("down"))
		require.Equal(t, 204, send(a, http.MethodDelete, "", session).Code)
		require.NoError(t, a.Shutdown(t.Context()))
		shared.fail(nil)
		time.Sleep(time.Minute)
		require.Equal(t, 200, post(b, legacy(2, "tools/call", callPeer), session).Code)
	})
}

// A session that an operator ends at one replica has ended at all, as after a deletion. Its key is that of the replica
// which has given it.
func TestOperatorEndsASessionOfSeveralReplicas(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, shared *sharedMemory) {
		causes := blocking(b)
		session, other := open(t, a), open(t, b)
		call := legacy(2, "tools/call", callPeer)
		answered := make(chan string, 1)
		go func() {
			answered <- post(b, legacy(7, "tools/call", `"name":"block","arguments":{}`), session).Body.String()
		}()
		synctest.Wait()
		key := sessionKey(a)
		_, err := b.EndSession(key)
		require.Error(t, err, "the session is open there, too, and has another key")
		_, err = a.EndSession(key)
		require.NoError(t, err)
		require.ErrorIs(t, <-causes, mcp.ErrSessionDeleted)
		<-answered
		synctest.Wait()
		late := newReplica(t, server.WithStore(shared.store()))
		defer late.Shutdown(context.Background())
		for _, srv := range []*server.Server{a, b, late} {
			require.Equal(t, 404, post(srv, call, session).Code)
			require.Equal(t, 200, post(srv, call, other).Code)
		}
	})
}

// The others hear of it later if the store is away when an operator ends a session.
func TestOperatorEndsASessionWhileTheStoreIsAway(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, shared *sharedMemory) {
		session := open(t, a)
		call := legacy(2, "tools/call", callPeer)
		require.Equal(t, 200, post(b, call, session).Code)
		synctest.Wait()
		shared.fail(errors.New("down"))
		_, err := a.EndSession(sessionKey(a))
		require.NoError(t, err)
		require.Equal(t, 404, post(a, call, session).Code)
		require.Equal(t, 200, post(b, call, session).Code, "it does not know")
		shared.fail(nil)
		time.Sleep(time.Minute)
		require.Equal(t, 404, post(b, call, session).Code)
	})
}

// A connection is open at one process only. When an operator ends it, the store is not asked.
func TestOperatorEndsAConnectionOfOneReplica(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, _ *server.Server, shared *sharedMemory) {
		p := dial(t, a)
		require.Contains(t, p.ask(modern(1, "tools/list", "")), "peer")
		synctest.Wait()
		shared.used()
		_, err := a.EndSession(sessionKey(a))
		require.NoError(t, err)
		synctest.Wait()
		require.Zero(t, shared.used())
	})
}

// A session that has ended stays so for a replica with a later state of it, which the store has lost.
func TestDeleteAfterTheStoreHasLostItsValues(t *testing.T) {
	inReplicas(t, func(t *testing.T, a, b *server.Server, shared *sharedMemory) {
		session := open(t, a)
		for i, level := range []string{"debug", "error", "info"} {
			require.Equal(t, 200, post(b, legacy(i, "logging/setLevel", `"level":"`+level+`"`), session).Code)
		}
		synctest.Wait()
		shared.lose()
		require.Equal(t, 204, send(a, http.MethodDelete, "", session).Code)
		synctest.Wait()
		require.Equal(t, 404, post(b, legacy(2, "tools/call", callPeer), session).Code)
	})
}
