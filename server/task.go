package server

import (
	"context"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
	"github.com/vitrine-mcp/vitrine/server/internal/task"
)

// addTasks turns the extension on.
func (s *Server) addTasks(t Tasks) (err error) {
	s.tasks, err = task.New(task.Config{
		Store: t.Store, PollInterval: t.PollInterval,
		Core: s.core, Logger: s.logger, Hub: s.hub, Encoder: s.encoder, Teller: s.routes.teller,
	})
	if err == nil {
		_, err = s.extensions.put(mcp.ExtensionTasks, nil)
	}
	return err
}

// A TaskSupport says whether the calls of a tool may go on as tasks.
type TaskSupport uint8

const (
	// TaskOptional: the handler may call [Call.Detach]. For a client that has not
	// declared the tasks extension the call goes on as it is.
	TaskOptional TaskSupport = iota + 1
	// TaskRequired: the tool is of no use without tasks. Clients that have not declared
	// the extension are refused before the handler runs.
	TaskRequired
)

// TaskOptions describe a task to [Call.Detach]. The zero value is good.
type TaskOptions struct {
	// TTL is how long the task lives, from now on: a handler that runs longer is
	// cancelled with [mcp.ErrDeadline]. The client is told, in milliseconds. The default
	// and the maximum are limits of the server (TaskTTL, MaxTaskTTL).
	TTL time.Duration
	// PollInterval is how often the client should ask, in milliseconds to it; the default
	// is that of [Tasks].
	PollInterval time.Duration
	// Message says in a sentence what the task does. [Call.Progress] replaces it.
	Message string
}

// Detach answers the call now, with a task, and lets the handler go on as that task
// (extension io.modelcontextprotocol/tasks). The task exists when Detach returns; the
// client may ask for it at once. What the handler returns in the end becomes the
// result of the task, or its error if it is an [*mcp.Error].
//
// The context that is returned is the one to go on with. It has the values of ctx and
// neither its cancellation nor its deadline: it is cancelled with [mcp.ErrClientCancelled]
// by tasks/cancel, with [mcp.ErrDeadline] at the end of the task's life, and with
// [mcp.ErrServerShutdown] at the end of a drain, which waits for tasks as it does for
// requests.
//
// Questions that came before Detach ([Call.Elicit], [Call.Sample], [Call.Roots]) have
// made the handler run again. Questions that come after it are waited for: the task is
// input_required until the client has answered, and several goroutines may ask at the
// same time. [Call.Progress] sets the message of the task.
//
// With a client that has not declared the extension, and in the legacy era, nothing
// happens: Detach returns ctx and nil, and the handler goes on within its request. With
// an error it returns ctx too, and the call is still to be answered: the error is that
// of the store or of a limit (an [*mcp.Error], to be returned), or says that the request
// is over.
func (c *Call) Detach(ctx context.Context, o TaskOptions) (context.Context, error) {
	return c.run.Detach(ctx, &c.dialog, task.Options(o))
}

// detachable lets the calls of a tool go on as tasks.
func (s *Server) detachable(support TaskSupport, h callHandler) callHandler {
	return func(ctx context.Context, call *Call) (mcp.Result, error) {
		_, declared := call.Extension(mcp.ExtensionTasks)
		switch {
		case s.tasks != nil && declared:
			call.run = s.tasks.NewRun()
			return task.Serve(ctx, call.run, call, h)
		case support == TaskRequired:
			return nil, era.MissingExtension(call.Request, mcp.ExtensionTasks)
		}
		call.run = &task.Run{}
		return h(ctx, call)
	}
}
