package server_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// A task whose tool yields its class has no slot while it waits for its client, and waits for one when it
// has the answer. Otherwise it keeps the slot.
func TestTaskYieldsItsClass(t *testing.T) {
	for _, yields := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			srv := newTaskServer(t)
			class := server.NewClass("one", 1)
			server.AddTool(srv, server.Tool{Name: "ask", Task: server.TaskOptional, Class: class, YieldClass: yields},
				func(ctx context.Context, c *server.Call, _ none) (string, error) {
					if _, err := c.Detach(ctx, server.TaskOptions{}); err != nil {
						return "", err
					}
					r, err := c.Elicit("name", textForm("name"))
					if err != nil {
						return "", err
					}
					return field(r), nil
				})
			release := make(chan struct{})
			server.AddTool(srv, server.Tool{Name: "work", Class: class}, func(context.Context, *server.Call, none) (string, error) {
				<-release
				return "", nil
			})
			client := connectTasks(t, srv)
			classes := func() mcp.ClassState {
				synctest.Wait()
				return srv.Core().Snapshot().Classes[0]
			}
			task, err := client.StartTask(t.Context(), "ask", nil)
			require.NoError(t, err)
			if !yields {
				require.Equal(t, 1, classes().InUse)
				require.NoError(t, task.Answer(t.Context(), map[string]any{"name": accept("name", "Ada")}))
				_, err = task.Result(t.Context())
				require.NoError(t, err)
				require.Zero(t, classes().InUse)
				return
			}
			require.Zero(t, classes().InUse)
			worked := make(chan error, 1)
			go func() {
				_, err := client.CallTool(t.Context(), "work", nil)
				worked <- err
			}()
			require.Equal(t, 1, classes().InUse)
			require.NoError(t, task.Answer(t.Context(), map[string]any{"name": accept("name", "Ada")}))
			state, err := task.Get(t.Context())
			require.NoError(t, err)
			require.Equal(t, mcp.TaskWorking, state.Status)
			require.Equal(t, mcp.ClassState{Name: "one", Limit: 1, InUse: 1, Queued: 1}, classes())
			close(release)
			require.NoError(t, <-worked)
			result, err := task.Result(t.Context())
			require.NoError(t, err)
			require.JSONEq(t, `{"name":"Ada"}`, result.Text())
			require.Zero(t, classes().InUse)
		})
	}
}
