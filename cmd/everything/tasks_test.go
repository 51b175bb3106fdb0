package main

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server/servertest"
)

// taskClient declares what the suite's client does in the scenarios of tasks.
func taskClient(t *testing.T, opts ...servertest.Option) *servertest.Client {
	return servertest.Connect(t, plainServer(), append([]servertest.Option{
		servertest.Capabilities(mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{}, Sampling: &mcp.SamplingCapability{}}),
		servertest.Extension(mcp.ExtensionTasks, nil),
	}, opts...)...)
}

// start starts a tool that must become a task.
func start(t *testing.T, c *servertest.Client, tool string, args any) *servertest.Task {
	t.Helper()
	task, err := c.StartTask(t.Context(), tool, args)
	require.NoError(t, err)
	return task
}

func accepted(content map[string]any) map[string]any {
	return map[string]any{"action": "accept", "content": content}
}

func TestTasksThatComplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := taskClient(t)
		result, err := c.CallTool(t.Context(), "greet", map[string]any{"name": "Ada"})
		require.NoError(t, err)
		assert.Equal(t, "Hello, Ada!", result.Text())
		_, err = c.StartTask(t.Context(), "greet", map[string]any{"name": "Ada"})
		require.ErrorIs(t, err, servertest.ErrNoTask, "never a task")

		begin := time.Now()
		task := start(t, c, "slow_compute", map[string]any{"seconds": 2, "label": "x"})
		require.Zero(t, time.Since(begin))
		result, err = task.Result(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "x was computed in 2s", result.Text())
		assert.InDelta(t, 2, time.Since(begin).Seconds(), 0.3, "the client polls")

		task = start(t, c, "slow_compute", map[string]any{"seconds": 60})
		require.NoError(t, task.Cancel(t.Context()))
		state, err := task.Get(t.Context())
		require.NoError(t, err)
		assert.Equal(t, mcp.TaskCancelled, state.Status)
	})
}

func TestTasksThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := taskClient(t)
		result, err := start(t, c, "failing_job", nil).Result(t.Context())
		require.NoError(t, err)
		assert.True(t, result.IsError)
		state, err := start(t, c, "protocol_error_job", nil).Await(t.Context())
		require.NoError(t, err)
		assert.Equal(t, mcp.TaskFailed, state.Status)
		assert.NotNil(t, state.Error)
		assert.Nil(t, state.Result)
		result, err = c.CallTool(t.Context(), "slow_compute", map[string]any{"seconds": 601})
		require.NoError(t, err)
		assert.True(t, result.IsError)
	})
}

func TestTasksThatAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := taskClient(t)
		task := start(t, c, "confirm_delete", map[string]any{"filename": "a.txt"})
		_, err := task.Await(t.Context(), mcp.TaskInputRequired)
		require.NoError(t, err)
		require.NoError(t, task.Answer(t.Context(), map[string]any{"unknown-key": map[string]any{"ignored": true}}))
		state, err := task.Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, mcp.TaskInputRequired, state.Status)
		for key := range state.Questions {
			require.NoError(t, task.Answer(t.Context(), map[string]any{key: accepted(map[string]any{"confirm": true})}))
		}
		result, err := task.Result(t.Context())
		require.NoError(t, err)
		assert.Equal(t, `a.txt: accept {"confirm":true}`, result.Text())

		task = start(t, c, "multi_input", nil)
		synctest.Wait()
		state, err = task.Get(t.Context())
		require.NoError(t, err)
		require.Len(t, state.Questions, 2)
		left := 2
		for key := range state.Questions {
			require.NoError(t, task.Answer(t.Context(), map[string]any{key: accepted(map[string]any{"name": "partial", "confirm": true})}))
			left--
			state, err := task.Get(t.Context())
			require.NoError(t, err)
			require.Len(t, state.Questions, left, "at once")
		}
		_, err = task.Result(t.Context())
		require.NoError(t, err)
	})
}

func TestTaskAfterRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := []string{}
		c := taskClient(t, servertest.OnInput(func(_ context.Context, q servertest.Question) (any, error) {
			asked = append(asked, q.Key)
			return accepted(map[string]any{"name": "Alice"}), nil
		}))
		task := start(t, c, "test_tool_with_task", nil)
		require.Equal(t, []string{"user_name"}, asked)
		result, err := task.Result(t.Context())
		require.NoError(t, err)
		assert.Contains(t, result.Text(), "Alice")
	})
}

// For a client without the extension, a call runs to its end, unless the tool must be a task.
func TestTasksWithoutTheExtension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, opts := range [][]servertest.Option{nil, {servertest.Legacy(mcp.Version20251125)}} {
			c := servertest.Connect(t, plainServer(), opts...)
			result, err := c.CallTool(t.Context(), "slow_compute", map[string]any{"seconds": 0})
			require.NoError(t, err)
			assert.NotEmpty(t, result.Text())
			for _, tool := range []string{"failing_job", "test_tool_with_task"} {
				_, err = c.CallTool(t.Context(), tool, nil)
				rpc, _ := mcp.AsError(err)
				require.NotNil(t, rpc, tool)
				if opts == nil {
					assert.Equal(t, mcp.CodeMissingRequiredCapability, rpc.Code)
				}
			}
		}
	})
}
