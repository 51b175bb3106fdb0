package server

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"runtime/trace"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
)

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

// Errors of [Call.Detach] that a program's author makes.
var (
	errNoTaskTool = errors.New("server: Detach needs a tool with Tool.Task set")
	errDetached   = errors.New("server: the call goes on as a task already")
)

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
	if c.run == nil {
		return ctx, errNoTaskTool
	}
	return c.run.detach(ctx, c, o)
}

// A taskRun is one run of the handler of a tool that may become a task. The handler
// has a goroutine of its own, so that the call can be answered while it runs.
type taskRun struct {
	tasks    *tasks // nil: Detach does nothing
	created  chan *mcp.CreateTaskResult
	returned chan ending
	// task is what the run has become, or nil.
	task atomic.Pointer[task]

	mu    sync.Mutex // guards the rest
	state runState
	early *ending // of a handler that has returned while another goroutine detaches
}

type runState uint8

const (
	runPending runState = iota
	runDetaching
	runDetached
	runReturned
)

// An ending is how a handler has returned.
type ending struct {
	result mcp.Result
	err    error
	panic  *session.HandlerPanic // or a runtime.Goexit, if its value is nil
	// blameless: the result reports an error that is the caller's fault.
	blameless bool
}

// detachable lets the calls of a tool go on as tasks.
func (s *Server) detachable(support TaskSupport, h callHandler) callHandler {
	return func(ctx context.Context, call *Call) (mcp.Result, error) {
		_, declared := call.Extension(mcp.ExtensionTasks)
		switch {
		case s.tasks != nil && declared:
		case support == TaskRequired:
			return nil, era.MissingExtension(call.Request, mcp.ExtensionTasks)
		default:
			call.run = &taskRun{}
			return h(ctx, call)
		}
		run := &taskRun{tasks: s.tasks, created: make(chan *mcp.CreateTaskResult, 1), returned: make(chan ending, 1)}
		call.run = run
		go run.handle(ctx, call, h)
		select {
		case result := <-run.created:
			return result, nil
		case end := <-run.returned:
			return end.yield()
		}
	}
}

// yield returns, or panics, as the handler did on its own goroutine. The session core
// knows how to read such a panic.
func (e ending) yield() (mcp.Result, error) {
	if e.panic != nil {
		panic(e.panic)
	}
	return e.result, e.err
}

// regionDetachable is the region of a handler that may become a task, in the task of
// its request in a trace of the runtime, which would otherwise not show its goroutine.
const regionDetachable = "detachable handler"

// handle is the goroutine of the handler.
func (r *taskRun) handle(ctx context.Context, call *Call, h callHandler) {
	end := ending{panic: &session.HandlerPanic{}}
	defer func() {
		if end.panic != nil {
			end.panic.Value, end.panic.Stack = recover(), debug.Stack()
		}
		r.end(end)
	}()
	defer trace.StartRegion(ctx, regionDetachable).End()
	result, err := h(ctx, call)
	end = ending{result: result, err: err}
}

// end hands over how the handler has returned: to its request, or to the task.
func (r *taskRun) end(e ending) {
	r.mu.Lock()
	state := r.state
	switch state {
	case runPending:
		r.state = runReturned
	case runDetaching:
		r.early = &e
	}
	r.mu.Unlock()
	switch state {
	case runPending:
		r.returned <- e
	case runDetached:
		r.task.Load().finish(e)
	}
}

func (r *taskRun) detach(ctx context.Context, call *Call, o TaskOptions) (context.Context, error) {
	if r.tasks == nil {
		return ctx, nil
	}
	if err := r.begin(); err != nil {
		return ctx, err
	}
	t, result, err := r.tasks.start(ctx, call, o)
	r.mu.Lock()
	early := r.early
	switch {
	case err == nil:
		r.task.Store(t)
		r.state = runDetached
	case early != nil:
		r.state = runReturned
	default:
		r.state = runPending
	}
	r.mu.Unlock()
	if err != nil {
		if early != nil {
			r.returned <- *early
		}
		return ctx, err
	}
	call.answerWith(t)
	r.created <- result
	if early != nil {
		t.finish(*early)
	}
	return t.ctx, nil
}

// begin reserves the run for one Detach.
func (r *taskRun) begin() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch r.state {
	case runDetaching, runDetached:
		return errDetached
	case runReturned:
		return mcp.ErrRequestDone
	}
	r.state = runDetaching
	return nil
}

// answerWith lets a task answer the questions that its handler asks from now on.
func (c *Call) answerWith(t *task) {
	c.asking.Lock()
	defer c.asking.Unlock()
	c.input = &taskInput{t}
}

// task returns the task as which the call goes on, or nil.
func (c *Call) task() *task {
	if c.run == nil {
		return nil
	}
	return c.run.task.Load()
}

// over returns why a call cannot be detached any more, or nil.
func (c *Call) over(ctx context.Context) error {
	c.asking.Lock()
	input := c.input
	c.asking.Unlock()
	if conv, asked := input.(conversation); asked && conv.fault() != nil {
		return conv.fault()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if c.core.Settled() {
		return mcp.ErrRequestDone
	}
	return nil
}

// life returns how long a task lives, and the limit that says so; "" if it is the
// handler's own wish.
func (o TaskOptions) life(limits session.Limits) (ttl time.Duration, limit string) {
	ttl = o.TTL
	if ttl == 0 {
		ttl, limit = limits.TaskTTL, session.LimitTaskTTL
	}
	if ttl > limits.MaxTaskTTL {
		ttl, limit = limits.MaxTaskTTL, session.LimitMaxTaskTTL
	}
	return max(ttl.Truncate(time.Millisecond), time.Millisecond), limit
}

func (o TaskOptions) check() error {
	if o.TTL < 0 || o.PollInterval < 0 {
		return fmt.Errorf("server: neither the TTL (%v) nor the poll interval (%v) of a task may be negative", o.TTL, o.PollInterval)
	}
	return nil
}
