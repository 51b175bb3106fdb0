package service_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/server"
)

// guarded is a tool whose handlers wait for a lock.
func guarded(lock *sync.Mutex) string {
	lock.Lock()
	defer lock.Unlock()
	return "done"
}

// A lock that handlers of one tool wait for is a group with the tool's name, the lock and the code that takes it.
func TestGoroutinesByTool(t *testing.T) {
	srv := server.New("test", "1")
	var lock sync.Mutex
	server.AddTool(srv, server.Tool{Name: "guarded"}, func(context.Context, *server.Call, struct{}) (string, error) {
		return guarded(&lock), nil
	})
	r := start(t, srv)
	lock.Lock()
	release := sync.OnceFunc(lock.Unlock)
	t.Cleanup(release)
	var calls sync.WaitGroup
	for range 3 {
		calls.Go(func() { r.call("guarded", `{}`) })
	}
	page := func(query string) (page report.Goroutines) {
		status, body := r.get(t, "/debug/goroutines"+query)
		require.Equal(t, http.StatusOK, status)
		require.NoError(t, json.Unmarshal([]byte(body), &page))
		return page
	}
	require.Eventually(t, func() bool {
		groups := page("?tool=guarded").Groups
		return len(groups) == 1 && groups[0].Count == 3 && groups[0].State == "sync.Mutex.Lock"
	}, patience, patience/1000)
	one := page("?tool=guarded")
	g := one.Groups[0]
	require.Equal(t, "tools/call", g.Method)
	require.Equal(t, "guarded", g.Tool)
	require.Contains(t, g.Blocking, "Mutex).Lock")
	require.Regexp(t, `^github.com/vitrine-mcp/vitrine/service_test\.guarded goroutines_test\.go:\d+$`, g.Application)
	require.Greater(t, one.Total, 3)
	require.Greater(t, len(page("").Groups), 1, "without a tool there are all")

	_, text := r.get(t, "/debug/goroutines?format=text")
	require.Regexp(t, `(?m)^3 +guarded +sync\.Mutex\.Lock +0s +\S*Mutex\)\.Lock \S+ +\S+service_test\.guarded goroutines_test\.go:\d+$`, text)
	_, index := r.get(t, "/")
	require.True(t, strings.Contains(index, "/debug/goroutines") && strings.Contains(index, "/debug/limits") && strings.Contains(index, "/debug/events"))
	release()
	calls.Wait()
}
