package server_test

import (
	"context"
	"fmt"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/server/servertest"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// A tool whose calls go on as tasks, if the client has the extension. The question
// comes while the task runs.
func ExampleCall_Detach() {
	srv := server.New("archive", "1.0.0", server.WithTelemetry(telemetry.Disabled()),
		server.WithTasks(server.Tasks{PollInterval: 10 * time.Millisecond}))
	server.AddTool(srv, server.Tool{Name: "pack", Description: "Pack the archive", Task: server.TaskOptional},
		func(ctx context.Context, call *server.Call, _ none) (string, error) {
			ctx, err := call.Detach(ctx, server.TaskOptions{TTL: time.Hour, Message: "packing"})
			if err != nil {
				return "", err // the call is answered with it
			}
			select { // a long time, in which the client need not stay connected
			case <-time.After(time.Millisecond):
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
			type where struct {
				Folder string `json:"folder"`
			}
			to, action, err := server.ElicitForm[where](call, "where", "Where shall it go?")
			if err != nil || action != mcp.ElicitAccept {
				return "", err
			}
			return "packed into " + to.Folder, nil
		})

	t := newExampleT() // a test passes its own
	defer t.end()
	client := servertest.Connect(t, srv,
		servertest.Capabilities(mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{}}),
		servertest.Extension(mcp.ExtensionTasks, nil))
	task, err := client.StartTask(context.Background(), "pack", nil)
	fmt.Println(task.Created.Status, task.Created.StatusMessage, err)
	state, err := task.Await(context.Background(), mcp.TaskInputRequired)
	fmt.Println(state.Status, len(state.Questions), err)
	err = task.Answer(context.Background(), map[string]any{
		"where": map[string]any{"action": "accept", "content": map[string]any{"folder": "/attic"}},
	})
	fmt.Println(err)
	result, err := task.Result(context.Background())
	fmt.Println(result.Text(), err)

	// Output:
	// working packing <nil>
	// input_required 1 <nil>
	// <nil>
	// packed into /attic <nil>
}
