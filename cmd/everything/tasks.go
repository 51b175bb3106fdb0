package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// taskFixtures are for the scenarios of the tasks extension.
var taskFixtures = []fixture{
	tool(server.Tool{Name: "greet", Description: "Greet somebody at once, never as a task."}, greet),
	tool(server.Tool{
		Name: "slow_compute", Description: "Compute for the given number of seconds, as a task if the client has tasks.",
		Task: server.TaskOptional, Deadline: maxTime,
	}, compute),
	tool(server.Tool{
		Name: "restartable_compute", Description: "Compute like slow_compute. If its replica is lost, the task begins again at another one.",
		Task: server.TaskOptional, Deadline: maxTime, Restartable: true,
	}, compute),
	job("failing_job", "Fail after a second, in a way that a model can read.", server.TaskRequired,
		mcp.ToolErrorf("this job fails intentionally, for testing")),
	job("protocol_error_job", "Fail after a second, with a protocol error.", server.TaskOptional,
		mcp.NewError(mcp.CodeInternalError, "this job breaks intentionally, for testing")),
	tool(server.Tool{
		Name: "confirm_delete", Description: "Ask whether a file is to be deleted. Nothing is deleted.", Task: server.TaskOptional,
	}, confirmDelete),
	tool(server.Tool{
		Name: "multi_input", Description: "Ask two questions at the same time.", Task: server.TaskOptional,
	}, askTwoAtOnce),
	tool(server.Tool{
		Name: "test_tool_with_task", Description: "Ask for a name, then greet it from a task.", Task: server.TaskRequired,
	}, greetFromTask),
}

type nameInput struct {
	Name string `json:"name"`
}

func greet(_ context.Context, _ *server.Call, in nameInput) (string, error) {
	return fmt.Sprintf("Hello, %s!", in.Name), nil
}

type computeInput struct {
	Seconds float64 `json:"seconds" jsonschema:"how long it takes, 0 to 600"`
	Label   string  `json:"label,omitempty" jsonschema:"what the result is called"`
}

func compute(ctx context.Context, call *server.Call, in computeInput) (string, error) {
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
}

// job returns a task that takes a second and then fails.
func job(name, description string, task server.TaskSupport, fails error) fixture {
	return tool(server.Tool{Name: name, Description: description, Task: task},
		func(ctx context.Context, call *server.Call, _ none) (string, error) {
			ctx, err := call.Detach(ctx, server.TaskOptions{})
			if err == nil {
				err = wait(ctx, time.Second)
			}
			if err == nil {
				err = fails
			}
			return "", err
		})
}

type fileInput struct {
	Filename string `json:"filename"`
}

func confirmDelete(ctx context.Context, call *server.Call, in fileInput) (string, error) {
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
}

// askTwoAtOnce is a task that asks two questions at the same time. The suite answers
// both with the same members.
func askTwoAtOnce(ctx context.Context, call *server.Call, _ none) (string, error) {
	if _, err := call.Detach(ctx, server.TaskOptions{}); err != nil {
		return "", err
	}
	form := jsontext.Value(`{"type":"object","properties":{"name":{"type":"string"},"confirm":{"type":"boolean"}}}`)
	var asking sync.WaitGroup
	var answers [2]*mcp.ElicitResult
	var errs [2]error
	for i, q := range [][2]string{{"first", "What is your name?"}, {"second", "And what is your name really?"}} {
		asking.Go(func() {
			answers[i], errs[i] = call.Elicit(q[0], &mcp.ElicitParams{Message: q[1], RequestedSchema: form})
		})
	}
	asking.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s %s", answers[0].Content, answers[1].Content), nil
}

// greetFromTask asks first, and goes on as a task then.
func greetFromTask(ctx context.Context, call *server.Call, _ none) (string, error) {
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
}
