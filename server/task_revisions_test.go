package server_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
	"github.com/vitrine-mcp/vitrine/store"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// A repeatingStore can tell its server of a change late, or again.
type repeatingStore struct {
	*sharedStore
	changed func(*store.TaskRecord)
	quiet   bool                // it tells of no change
	history []*store.TaskRecord // after each change
}

func (s *repeatingStore) Watch(changed func(*store.TaskRecord)) {
	s.changed = changed
	s.sharedStore.Watch(func(rec *store.TaskRecord) {
		s.history = append(s.history, rec)
		if !s.quiet {
			changed(rec)
		}
	})
}

// answer stores an answer as another replica does, which cannot judge it.
func (s *repeatingStore) answer(t *testing.T, id, key string, answer any) {
	t.Helper()
	raw, err := json.Marshal(answer)
	require.NoError(t, err)
	_, err = s.Update(t.Context(), id, func(rec *store.TaskRecord) error {
		delete(rec.InputRequests, key)
		rec.InputResponses = map[string]jsontext.Value{key: raw}
		rec.Status = mcp.TaskWorking
		rec.Revision++
		return nil
	})
	require.NoError(t, err)
}

// inRepeatingStore runs a test with a task that asks for a name, and ends with the name when it is released.
func inRepeatingStore(t *testing.T, test func(t *testing.T, srv *server.Server, s *repeatingStore, task *servertest.Task, release chan<- struct{})) {
	synctest.Test(t, func(t *testing.T) {
		tel, err := telemetry.New()
		require.NoError(t, err)
		s := &repeatingStore{sharedStore: newSharedStore()}
		srv, release := newServer(t, server.WithTasks(server.Tasks{Store: s}), server.WithTelemetry(tel)), make(chan struct{}, 1)
		server.AddTool(srv, server.Tool{Name: "ask", Task: server.TaskRequired}, func(ctx context.Context, c *server.Call, _ none) (string, error) {
			if _, err := c.Detach(ctx, server.TaskOptions{}); err != nil {
				return "", err
			}
			name, err := c.Elicit("name", textForm("name"))
			<-release
			return field(name), err
		})
		task, err := connectTasks(t, srv).StartTask(t.Context(), "ask", nil)
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, mcp.TaskInputRequired, s.status(task.Created.TaskID))
		defer func() {
			close(release)
			_ = task.Cancel(t.Context())
			synctest.Wait()
		}()
		test(t, srv, s, task, release)
	})
}

// An answer that was judged late is not asked for again when the record has a further answer.
func TestLateJudgementKeepsTheNextAnswer(t *testing.T) {
	inRepeatingStore(t, func(t *testing.T, _ *server.Server, s *repeatingStore, task *servertest.Task, release chan<- struct{}) {
		id := task.Created.TaskID
		s.quiet = true
		s.answer(t, id, "name", accept("name", 5))
		invalid := s.history[len(s.history)-1]
		s.quiet = false
		s.changed(invalid)
		require.Equal(t, mcp.TaskInputRequired, s.status(id), "a number is no name")
		s.quiet = true
		s.answer(t, id, "name", accept("name", "Ada"))
		s.quiet = false
		s.changed(invalid)
		require.Equal(t, mcp.TaskWorking, s.status(id), "it is answered")
		release <- struct{}{}
		result, err := task.Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, `{"name":"Ada"}`, result.Text())
	})
}

// What telemetry says of a task does not go back when its server hears of an earlier change late.
func TestStatusOfATaskDoesNotGoBack(t *testing.T) {
	inRepeatingStore(t, func(t *testing.T, srv *server.Server, s *repeatingStore, task *servertest.Task, _ chan<- struct{}) {
		status := func() string {
			tasks := requestsPage(t, srv).Tasks
			require.Len(t, tasks, 1)
			return tasks[0].Status
		}
		require.Equal(t, "input_required", status())
		asked := s.history[len(s.history)-1]
		require.Equal(t, mcp.TaskInputRequired, asked.Status)
		s.answer(t, task.Created.TaskID, "name", accept("name", "Ada"))
		require.Equal(t, "working", status())
		s.changed(asked)
		require.Equal(t, "working", status())
	})
}
