package servertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// Extension makes the client declare an extension. settings must encode to a JSON object; nil
// stands for {}. Extension must follow [Capabilities], which would replace it. A client that
// declares [mcp.ExtensionTasks] may get a task as an answer: [Client.CallTool] then waits for
// the end of the task, [Client.StartTask] does not.
func Extension(id string, settings any) Option {
	if settings == nil {
		settings = struct{}{}
	}
	return optionFunc(func(c *config) {
		all := map[string]any{id: settings}
		maps.Copy(all, c.capabilities.Extensions)
		c.capabilities.Extensions = all
	})
}

// A Task is a call of a tool that goes on after its answer. Make one with
// [Client.StartTask]. It is safe for concurrent use.
type Task struct {
	// Created is the task in the answer of the server.
	Created mcp.Task
	client  *Client
}

// TaskState is the state of a task, as tasks/get returns it.
type TaskState struct {
	mcp.Task
	// Questions are the questions that wait for an answer, by key.
	Questions map[string]Question
	// Result is the result of a completed task, Error the error of a failed one; otherwise nil.
	Result *ToolResult
	Error  *mcp.Error
}

// ErrNoTask is returned by [Client.StartTask] for a call that was answered with its result.
var ErrNoTask = errors.New("servertest: the call was not answered with a task")

// StartTask calls a tool that goes on as a task. [OnInput] answers the questions that come
// before the task.
func (c *Client) StartTask(ctx context.Context, tool string, args any) (*Task, error) {
	raw, err := c.callTool(ctx, tool, args)
	if err != nil {
		return nil, err
	}
	created, err := taskIn(raw)
	if err != nil {
		return nil, fmt.Errorf("servertest: result of %s: %w", tool, err)
	}
	if created == nil {
		return nil, fmt.Errorf("%w: %s", ErrNoTask, raw)
	}
	return c.Task(*created), nil
}

// Task returns a handle of the task with a TaskID. Another client may have started it.
func (c *Client) Task(created mcp.Task) *Task { return &Task{Created: created, client: c} }

// taskIn returns the task that a result has created, or nil.
func taskIn(result jsontext.Value) (*mcp.Task, error) {
	var created struct {
		ResultType string `json:"resultType"`
		mcp.Task
	}
	if err := json.Unmarshal(result, &created); err != nil || created.ResultType != "task" {
		return nil, err
	}
	return &created.Task, nil
}

// Get asks for the state of the task.
func (t *Task) Get(ctx context.Context) (*TaskState, error) {
	raw, err := t.client.Call(ctx, mcp.MethodTasksGet, mcp.TaskParams{TaskID: t.Created.TaskID})
	if err != nil {
		return nil, err
	}
	return newTaskState(raw)
}

// newTaskState decodes the result of tasks/get or the params of notifications/tasks.
func newTaskState(raw jsontext.Value) (*TaskState, error) {
	var got mcp.GetTaskResult
	if err := json.Unmarshal(raw, &got); err != nil {
		return nil, fmt.Errorf("servertest: state of a task: %w", err)
	}
	state := &TaskState{Task: got.Task, Error: got.Error, Questions: questionsOf(got.InputRequests)}
	if got.Result != nil {
		state.Result = new(ToolResult)
		if err := state.Result.decode(got.Result); err != nil {
			return nil, fmt.Errorf("servertest: result of a task: %w", err)
		}
	}
	return state, nil
}

// TaskChange returns the state of the task in a [Change] with the method
// [mcp.NotificationTasks].
func (c Change) TaskChange() (*TaskState, error) { return newTaskState(c.Params) }

// Await asks for the state of the task at the interval that the server suggests, until the
// task has ended or has one of the given statuses.
func (t *Task) Await(ctx context.Context, statuses ...mcp.TaskStatus) (*TaskState, error) {
	for {
		state, err := t.Get(ctx)
		if err != nil || state.Status.Terminal() || slices.Contains(statuses, state.Status) {
			return state, err
		}
		timer := time.NewTimer(max(time.Duration(state.PollInterval)*time.Millisecond, time.Millisecond))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		}
	}
}

// Answer answers questions of the task, by key. The answers are encoded to JSON.
func (t *Task) Answer(ctx context.Context, answers map[string]any) error {
	return t.update(ctx, answers)
}

func (t *Task) update(ctx context.Context, answers any) error {
	_, err := t.client.Call(ctx, mcp.MethodTasksUpdate, map[string]any{"taskId": t.Created.TaskID, "inputResponses": answers})
	return err
}

// Cancel asks the server to end the task.
func (t *Task) Cancel(ctx context.Context) error {
	_, err := t.client.Call(ctx, mcp.MethodTasksCancel, mcp.TaskParams{TaskID: t.Created.TaskID})
	return err
}

// ErrTaskCancelled is returned by [Task.Result] for a task that was cancelled.
var ErrTaskCancelled = errors.New("servertest: the task was cancelled")

// Result waits for the end of the task and returns its result. The error of a failed task is
// an [*mcp.Error]. [OnInput] answers questions; without it Result waits until another client
// has answered them.
func (t *Task) Result(ctx context.Context) (*ToolResult, error) {
	for {
		state, err := t.Await(ctx, mcp.TaskInputRequired)
		switch {
		case err != nil:
			return nil, err
		case state.Error != nil:
			return nil, state.Error
		case state.Status == mcp.TaskCancelled:
			return nil, ErrTaskCancelled
		case state.Result != nil:
			return state.Result, nil
		case t.client.cfg.input == nil:
			_, err = t.Await(ctx, mcp.TaskWorking)
		default:
			var answers map[string]jsontext.Value
			if answers, err = t.client.cfg.answerAll(ctx, state.Questions); err == nil {
				err = t.update(ctx, answers)
			}
		}
		if err != nil {
			return nil, err
		}
	}
}
