package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// taskFixtures are for the scenarios of the tasks extension.
var taskFixtures = []func(*server.Server){
	addGreet, addCompute, addFailingJob, addBrokenJob, addConfirm, addMultiInput, addTaskAfterRounds,
}

type nameInput struct {
	Name string `json:"name"`
}

// addGreet adds a tool that is never a task, beside the ones that may be.
func addGreet(srv *server.Server) {
	server.AddTool(srv, server.Tool{Name: "greet", Description: "Greet somebody at once, never as a task."},
		func(_ context.Context, _ *server.Call, in nameInput) (string, error) {
			return fmt.Sprintf("Hello, %s!", in.Name), nil
		})
}

type computeInput struct {
	Seconds float64 `json:"seconds" jsonschema:"how long it takes, 0 to 600"`
	Label   string  `json:"label,omitempty" jsonschema:"what the result is called"`
}

func addCompute(srv *server.Server) {
	server.AddTool(srv, server.Tool{
		Name: "slow_compute", Description: "Compute for the given number of seconds, as a task if the client has tasks.",
		Task: server.TaskOptional, Deadline: maxTime,
	}, func(ctx context.Context, call *server.Call, in computeInput) (string, error) {
		if !(in.Seconds >= 0 && in.Seconds <= maxSleepMS/1000) {
			return "", mcp.ToolErrorf("seconds must be from 0 to %d", maxSleepMS/1000)
		}
		ctx, err := call.Detach(ctx, server.TaskOptions{Message: "computing"})
		if err != nil {
			return "", err
		}
		d := time.Duration(in.Seconds * float64(time.Second))
		if in.Label == "" {
			in.Label = "the result"
		}
		return fmt.Sprintf("%s was computed in %v", in.Label, d), wait(ctx, d)
	})
}

// addFailingJob adds a task that reports its failure to the model.
func addFailingJob(srv *server.Server) {
	addJob(srv, "failing_job", "Fail after a second, in a way that a model can read.", server.TaskRequired,
		func(context.Context, *server.Call) error {
			return mcp.ToolErrorf("this job fails intentionally, for testing")
		})
}

// addBrokenJob adds a task that fails as a request does.
func addBrokenJob(srv *server.Server) {
	addJob(srv, "protocol_error_job", "Fail after a second, with a protocol error.", server.TaskOptional,
		func(context.Context, *server.Call) error {
			return mcp.NewError(mcp.CodeInternalError, "this job breaks intentionally, for testing")
		})
}

// addJob adds a task that takes a second and then fails.
func addJob(srv *server.Server, name, description string, task server.TaskSupport, fail func(context.Context, *server.Call) error) {
	server.AddTool(srv, server.Tool{Name: name, Description: description, Task: task},
		func(ctx context.Context, call *server.Call, _ none) (string, error) {
			ctx, err := call.Detach(ctx, server.TaskOptions{})
			if err == nil {
				err = wait(ctx, time.Second)
			}
			if err != nil {
				return "", err
			}
			return "", fail(ctx, call)
		})
}

type fileInput struct {
	Filename string `json:"filename"`
}

func addConfirm(srv *server.Server) {
	server.AddTool(srv, server.Tool{
		Name: "confirm_delete", Description: "Ask whether a file is to be deleted. Nothing is deleted.", Task: server.TaskOptional,
	}, func(ctx context.Context, call *server.Call, in fileInput) (string, error) {
		if _, err := call.Detach(ctx, server.TaskOptions{Message: "waiting for a decision"}); err != nil {
			return "", err
		}
		answer, err := call.Elicit("confirm", &mcp.ElicitParams{
			Message:         fmt.Sprintf("Delete %s?", in.Filename),
			RequestedSchema: jsontext.Value(`{"type":"object","properties":{"confirm":{"type":"boolean"}},"required":["confirm"]}`),
		})
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%s: %s %s", in.Filename, answer.Action, answer.Content), nil
	})
}

// addMultiInput adds a task that asks two questions at the same time. The suite answers
// both with the same members.
func addMultiInput(srv *server.Server) {
	form := jsontext.Value(`{"type":"object","properties":{"name":{"type":"string"},"confirm":{"type":"boolean"}}}`)
	server.AddTool(srv, server.Tool{
		Name: "multi_input", Description: "Ask two questions at the same time.", Task: server.TaskOptional,
	}, func(ctx context.Context, call *server.Call, _ none) (string, error) {
		if _, err := call.Detach(ctx, server.TaskOptions{}); err != nil {
			return "", err
		}
		type reply struct {
			answer *mcp.ElicitResult
			err    error
		}
		ask := func(key, message string) <-chan reply {
			c := make(chan reply, 1)
			go func() {
				answer, err := call.Elicit(key, &mcp.ElicitParams{Message: message, RequestedSchema: form})
				c <- reply{answer, err}
			}()
			return c
		}
		first, second := ask("first", "What is your name?"), ask("second", "And what is your name really?")
		one, two := <-first, <-second
		if err := errors.Join(one.err, two.err); err != nil {
			return "", err
		}
		return fmt.Sprintf("%s %s", one.answer.Content, two.answer.Content), nil
	})
}

// addTaskAfterRounds adds a tool that asks first and goes on as a task then.
func addTaskAfterRounds(srv *server.Server) {
	server.AddTool(srv, server.Tool{
		Name: "test_tool_with_task", Description: "Ask for a name, then greet it from a task.", Task: server.TaskRequired,
	}, func(ctx context.Context, call *server.Call, _ none) (string, error) {
		answer, err := call.Elicit("user_name", &mcp.ElicitParams{
			Message:         "What is your name?",
			RequestedSchema: jsontext.Value(`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`),
		})
		if err != nil {
			return "", err
		}
		ctx, err = call.Detach(ctx, server.TaskOptions{})
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("Hello: %s %s", answer.Action, answer.Content), wait(ctx, 100*time.Millisecond)
	})
}
