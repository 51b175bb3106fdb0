package server_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/server"
)

// The id of a task is all that a client of its principal needs to read it. It has 26 letters of
// 32, which is 130 bits, and no letter is constant or counts. A rule of internal/archtest checks
// the source of the bits.
func TestTaskIDsCannotBeGuessed(t *testing.T) {
	const tasks, letters = 512, 32
	srv := newTaskServer(t, server.WithLimits(server.Limits{MaxTasks: tasks, MaxTasksPerPrincipal: tasks, MaxRunningTasks: tasks}))
	jobs := addJob(srv, "work", false, server.TaskOptions{})
	p := dial(t, srv)
	seen, places := map[string]bool{}, make([]map[rune]int, 26)
	for range tasks {
		var created struct {
			Result struct{ TaskID string }
		}
		require.NoError(t, json.Unmarshal([]byte(p.ask(withCaps(1, "tools/call", withTasks, call("work", `{}`)))), &created))
		(<-jobs).finish("done")
		id := created.Result.TaskID
		require.Regexp(t, `^[A-Z2-7]{26}$`, id)
		require.False(t, seen[id], id)
		seen[id] = true
		for i, c := range id {
			if places[i] == nil {
				places[i] = map[rune]int{}
			}
			places[i][c]++
		}
	}
	for i, found := range places {
		require.Greater(t, len(found), letters-4, "the letters at place %d are too few", i)
		for c, n := range found { // 16 are to be expected
			require.Less(t, n, 64, "%q stands at place %d too often", c, i)
		}
	}
	require.NoError(t, srv.Shutdown(t.Context()))
}
