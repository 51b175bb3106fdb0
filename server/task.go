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
		May: s.mayUseTasks, Tool: func(name string) any { return taskTool(name) },
	})
	if err == nil {
		_, err = s.extensions.put(mcp.ExtensionTasks, nil)
	}
	return err
}

// A TaskSupport says whether the calls of a tool may go on as tasks.
type TaskSupport uint8

const (
	// TaskOptional lets the handler call [Call.Detach]. For a client that has not declared the
	// tasks extension Detach does nothing.
	TaskOptional TaskSupport = iota + 1
	// TaskRequired is for a tool that needs tasks. Clients that have not declared the extension
	// get an error, and the handler is not called.
	TaskRequired
)

// TaskOptions describe a task to [Call.Detach]. The zero value has the defaults.
type TaskOptions struct {
	// TTL is how long the task lives from now on. A handler that runs longer is cancelled with
	// [mcp.ErrDeadline]. The client gets the TTL in milliseconds. The default and the maximum
	// are limits of the server (TaskTTL, MaxTaskTTL).
	TTL time.Duration
	// PollInterval is how often the client should ask. The client gets it in milliseconds. The
	// default is that of [Tasks].
	PollInterval time.Duration
	// Message says in a sentence what the task does. [Call.Progress] replaces it.
	Message string
}

// Detach answers the call with a task, and the handler goes on as that task (extension
// io.modelcontextprotocol/tasks). The task exists when Detach returns; the client may ask for
// it at once. The result of the handler becomes the result of the task; an [*mcp.Error] becomes
// its error.
//
// The handler must use the returned context from then on. It has the values of ctx, but not its
// cancellation and its deadline. It is cancelled with [mcp.ErrClientCancelled] by tasks/cancel,
// with [mcp.ErrDeadline] at the end of the task's TTL, and with [mcp.ErrServerShutdown] at the
// end of a drain, which waits for tasks as for requests.
//
// A question before Detach ([Call.Elicit], [Call.Sample], [Call.Roots]) makes the handler run
// again. A question after it waits for the answer: the task is input_required until the client
// has answered. Several goroutines may ask at the same time. [Call.Progress] sets the message
// of the task.
//
// For a client that has not declared the extension, and in the legacy era, Detach does nothing:
// it returns ctx and nil, and the handler goes on within its request. If Detach returns an
// error, it also returns ctx, and the call is not answered yet. The error is that of the store
// or of a limit (an [*mcp.Error], which the handler should return), says that the request is
// over, or that the server shuts down: a drain that has come to its end, or one of a server whose
// tasks are in its memory, where no client can ask for them any more.
func (c *Call) Detach(ctx context.Context, o TaskOptions) (context.Context, error) {
	return c.run.Detach(ctx, &c.dialog, task.Options(o))
}

// detachable lets the calls of a tool go on as tasks.
func (s *Server) detachable(support TaskSupport, h callHandler) callHandler {
	return func(ctx context.Context, call *Call) (mcp.Result, error) {
		if run := task.Restarted(call.dialog.Core); run != nil {
			call.run = run
			return task.ServeAgain(ctx, run, &call.dialog, call, h)
		}
		_, declared := call.Extension(mcp.ExtensionTasks)
		switch {
		case s.tasks != nil && declared:
			call.run = s.tasks.NewRun()
			return task.Serve(ctx, call.run, &call.dialog, call, h)
		case support == TaskRequired:
			return nil, era.MissingExtension(call.Request, mcp.ExtensionTasks)
		}
		call.run = &task.Run{}
		return h(ctx, call)
	}
}
