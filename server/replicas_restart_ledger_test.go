package server_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// A replica deletes records of tasks to make room. It leaves the record of a task alone that another replica has taken over,
// whether the end of its own run was refused after an outage or at once.
func TestTakenOverTaskIsNotDeletedToMakeRoom(t *testing.T) {
	for _, away := range []bool{true, false} {
		inRestartingReplicas(t, func(t *testing.T, r *restarting) {
			first, task := r.start(t)
			r.links[0].cut.Store(true)
			again, _ := r.next(t, task, 1)
			if away {
				first.finish("late")
				time.Sleep(time.Second)
			}
			r.links[0].cut.Store(false)
			if !away {
				first.finish("late")
			}
			time.Sleep(20 * time.Second)
			require.Equal(t, 1, r.total(t, "vitrine_tasks_fenced_total"))
			require.Contains(t, scrape(t, r.tel[0]), `vitrine_tasks{status="working"} 0`)
			require.Contains(t, scrape(t, r.tel[0]), `vitrine_tasks{status="completed"} 0`)

			other, _ := r.start(t)
			require.Equal(t, mcp.TaskWorking, r.state(t, 2, task).Status)
			again.finish("done")
			other.finish("done, too")
			result, err := r.clients[2].Task(task).Result(t.Context())
			require.NoError(t, err)
			require.Equal(t, "done", result.Text())
		}, server.WithLimits(server.Limits{MaxTasksPerPrincipal: 1}))
	}
}
