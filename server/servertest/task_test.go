package servertest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// newTaskServer has a tool that asks for consent as a task, and one that needs no task.
func newTaskServer() *server.Server {
	srv := server.New("tasks", "1", server.WithTelemetry(telemetry.Disabled()), server.WithTasks(server.Tasks{}))
	server.AddTool(srv, server.Tool{Name: "ask", Task: server.TaskRequired},
		func(ctx context.Context, call *server.Call, _ none) (string, error) {
			if _, err := call.Detach(ctx, server.TaskOptions{}); err != nil {
				return "", err
			}
			answer, err := call.Elicit("consent", &mcp.ElicitParams{Message: "May I?"})
			if err != nil {
				return "", err
			}
			if answer.Action != mcp.ElicitAccept {
				return "", mcp.NewError(7, "refused")
			}
			return "done", nil
		})
	server.AddTool(srv, server.Tool{Name: "quick", Task: server.TaskOptional},
		func(context.Context, *server.Call, none) (string, error) { return "at once", nil })
	return srv
}

func tasking(opts ...servertest.Option) []servertest.Option {
	return append([]servertest.Option{
		servertest.Capabilities(mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{}}),
		servertest.Extension(mcp.ExtensionTasks, nil),
	}, opts...)
}

// answering answers each question with an action.
func answering(action mcp.ElicitAction, err error) servertest.Option {
	return servertest.OnInput(func(context.Context, servertest.Question) (any, error) {
		return mcp.ElicitResult{Action: action}, err
	})
}

func TestCallToolFollowsTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newTaskServer()
		result, err := servertest.Connect(t, srv, tasking(answering(mcp.ElicitAccept, nil))...).CallTool(t.Context(), "ask", nil)
		require.NoError(t, err)
		require.Equal(t, "done", result.Text())

		_, err = servertest.Connect(t, srv, tasking(answering(mcp.ElicitDecline, nil))...).CallTool(t.Context(), "ask", nil)
		require.Equal(t, mcp.NewError(7, "refused"), err)

		mine := errors.New("I cannot")
		_, err = servertest.Connect(t, srv, tasking(answering("", mine))...).CallTool(t.Context(), "ask", nil)
		require.ErrorIs(t, err, mine)

		client := servertest.Connect(t, srv, tasking()...)
		result, err = client.CallTool(t.Context(), "quick", nil)
		require.NoError(t, err)
		require.Equal(t, "at once", result.Text())
		_, err = client.StartTask(t.Context(), "quick", nil)
		require.ErrorIs(t, err, servertest.ErrNoTask)
		_, err = client.StartTask(t.Context(), "nope", nil)
		require.ErrorContains(t, err, "there is no tool")
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = srv.Shutdown(ctx) // ends the task that nobody has answered
	})
}

// Without OnInput another client must answer.
func TestResultWaitsForAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := newTaskServer()
		client, other := servertest.Connect(t, srv, tasking()...), servertest.Connect(t, srv, tasking()...)
		task, err := client.StartTask(t.Context(), "ask", nil)
		require.NoError(t, err)
		go func() {
			time.Sleep(time.Minute)
			same := other.Task(task.Created)
			state, err := same.Await(t.Context(), mcp.TaskInputRequired)
			if err == nil && state.Questions["consent"].Method == mcp.MethodElicitationCreate {
				err = same.Answer(t.Context(), map[string]any{"consent": mcp.ElicitResult{Action: mcp.ElicitAccept}})
			}
			if err != nil {
				t.Error(err)
			}
		}()
		begin := time.Now()
		result, err := task.Result(t.Context())
		require.NoError(t, err)
		require.Equal(t, "done", result.Text())
		require.GreaterOrEqual(t, time.Since(begin), time.Minute)

		task, err = client.StartTask(t.Context(), "ask", nil)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = task.Result(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, task.Cancel(t.Context()))
		_, err = task.Result(t.Context())
		require.ErrorIs(t, err, servertest.ErrTaskCancelled)
	})
}
