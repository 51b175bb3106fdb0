package server_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server/servertest"
)

// A handler whose task was cancelled hears of that with the next change of the task, also if nobody has told its replica.
func TestTaskCancelIsFoundInTheStore(t *testing.T) {
	for name, change := range map[string]func(ctx context.Context, j *job, here *servertest.Task){
		"the handler sets a message": func(_ context.Context, j *job, _ *servertest.Task) { _ = j.call.Progress(1, 2, "half of it") },
		"the client cancels again":   func(ctx context.Context, _ *job, here *servertest.Task) { _ = here.Cancel(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			inTaskReplicas(t, func(t *testing.T, r *taskReplicas) {
				j, here, there := r.start(t)
				r.shared.drop(true)
				require.NoError(t, there.Cancel(t.Context()))
				synctest.Wait()
				require.NoError(t, j.ctx.Err())
				change(t.Context(), j, here)
				synctest.Wait()
				require.ErrorIs(t, context.Cause(j.ctx), mcp.ErrClientCancelled)
			})
		})
	}
}
