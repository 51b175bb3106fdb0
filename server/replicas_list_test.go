package server_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/server"
)

// Each replica lists all of them, with what they do. One that is cut from the store lists itself.
func TestReplicasAreListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &sharedMemory{}
		var all []*server.Server
		for range 3 {
			srv := newReplica(t, server.WithStore(shared.store()), server.WithTelemetry(recording(t)))
			defer srv.Shutdown(context.Background())
			all = append(all, srv)
			time.Sleep(time.Minute)
		}
		_ = blocking(all[1])
		session := open(t, all[0])
		ctx, cancel := context.WithCancel(t.Context())
		go all[1].Handler().ServeHTTP(httptest.NewRecorder(), legacyRequest(legacy(7, "tools/call", `"name":"block","arguments":{}`), session).WithContext(ctx))
		synctest.Wait()
		list := func(srv *server.Server) (page report.Replicas) {
			t.Helper()
			rec := httptest.NewRecorder()
			srv.Telemetry().ReplicasHandler().ServeHTTP(rec, httptest.NewRequest("GET", "/debug/replicas", nil))
			require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &page))
			return page
		}
		for i, srv := range all {
			page := list(srv)
			require.Len(t, page.Replicas, 3)
			require.True(t, page.Replicas[0].This)
			require.Equal(t, requestsPage(t, srv).Replica, page.Replicas[0].Replica)
			require.Equal(t, i == 1, page.Replicas[0].InFlight == 1)
			names := map[string]bool{}
			busy := 0
			for _, r := range page.Replicas {
				names[r.Replica] = true
				busy += r.InFlight
				require.Equal(t, "1", r.Version)
				require.NotEmpty(t, r.Host)
			}
			require.Len(t, names, 3)
			require.Equal(t, 1, busy)
		}
		require.True(t, list(all[0]).Replicas[2].Started.After(list(all[0]).Replicas[1].Started), "the others are sorted by their start")

		shared.fail(errors.New("away"))
		for range 6 { // so that the breaker opens
			list(all[2])
		}
		time.Sleep(time.Second)
		page := list(all[2])
		require.Len(t, page.Replicas, 1)
		require.Contains(t, page.Note, "The store is away")
		require.Regexp(t, `(?m)^REPLICA .*\n.* serves, store away for \S+ \(this one\) `, textOf(all[2].Telemetry().ReplicasHandler()))
		shared.fail(nil)
		cancel()
		synctest.Wait()
	})
	require.Contains(t, textOf(newServer(t, server.WithTelemetry(recording(t))).Telemetry().ReplicasHandler()), "no store is set")
}
