package server_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/report"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// Questions of tasks are on the page while they wait for an answer, with the age of the oldest one, and count by
// client and version afterwards, like those of calls.
func TestQuestionsOfTasksAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, err := telemetry.New()
		require.NoError(t, err)
		srv := newTaskServer(t, server.WithTelemetry(tel))
		defer func() {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_ = srv.Shutdown(ctx)
		}()
		server.AddTool(srv, server.Tool{Name: "ask", Task: server.TaskRequired}, func(ctx context.Context, c *server.Call, _ none) (string, error) {
			if _, err := c.Detach(ctx, server.TaskOptions{}); err != nil {
				return "", err
			}
			name, err := c.Elicit("name", textForm("name"))
			return field(name), err
		})
		client := connectTasks(t, srv)
		begin := func() *servertest.Task {
			task, err := client.StartTask(t.Context(), "ask", nil)
			require.NoError(t, err)
			_, err = task.Await(t.Context(), mcp.TaskInputRequired)
			require.NoError(t, err)
			return task
		}
		row := func() report.Question {
			rows := requestsPage(t, srv).Questions
			require.Len(t, rows, 1)
			require.Equal(t, mcp.MethodElicitationCreate, rows[0].Method)
			require.NotEmpty(t, rows[0].Client)
			require.NotEmpty(t, rows[0].ClientVersion)
			return rows[0]
		}
		statuses := func() (all []string) {
			for _, task := range requestsPage(t, srv).Tasks {
				all = append(all, task.Status)
			}
			return all
		}
		first := begin()
		time.Sleep(time.Minute)
		second := begin()
		time.Sleep(time.Minute)
		waiting := row()
		require.Equal(t, []string{"input_required", "input_required"}, statuses())
		require.Equal(t, 2, waiting.Open)
		require.InDelta(t, 120, waiting.OldestAgeSeconds, 5)
		require.EqualValues(t, 2, waiting.Asked)

		require.NoError(t, first.Answer(t.Context(), map[string]any{"name": accept("name", "Ada")}))
		_, err = first.Result(t.Context())
		require.NoError(t, err)
		require.NoError(t, second.Cancel(t.Context()))
		synctest.Wait()
		over := row()
		require.Zero(t, over.Open)
		require.EqualValues(t, 1, over.Answered)
		require.Equal(t, map[string]uint64{"client_cancel": 1}, over.Unanswered)
		text := metricsOf(srv)
		require.Contains(t, text, `vitrine_questions_asked_total{method="elicitation/create"} 2`)
		require.Contains(t, text, `vitrine_questions_answered_total{method="elicitation/create"} 1`)
	})
}
