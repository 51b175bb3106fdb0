package server_test

import (
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

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
