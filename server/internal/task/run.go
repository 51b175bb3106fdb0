package task

import (
	"context"
	"errors"
	"runtime/debug"
	"runtime/trace"
	"sync"
	"sync/atomic"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server/internal/ask"
)

// Errors of Detach that are mistakes in the program.
var (
	errNoTaskTool = errors.New("server: Detach needs a tool with Tool.Task set")
	errDetached   = errors.New("server: the call goes on as a task already")
)

// A Run is one run of the handler of a tool that may become a task. The handler has a goroutine
// of its own, so that the call can be answered while it runs. A nil Run belongs to a tool without
// tasks. With the zero value, for clients without the extension, Detach does nothing.
type Run struct {
	service  *Service
	created  chan *mcp.CreateTaskResult
	returned chan ending
	// again is the answer of a run that is not the first one of its task, else nil.
	again *mcp.CreateTaskResult
	begun atomic.Bool // of such a run: its handler was called, or will not be
	// task is what the run has become, or nil.
	task atomic.Pointer[task]

	mu    sync.Mutex // guards the rest
	state runState
	early *ending // set if the handler returns while another goroutine calls Detach
}

type runState uint8

const (
	runPending   runState = iota
	runRestarted          // it is a task from the beginning, and the handler has not called Detach
	runDetaching
	runDetached
	runReturned
)

// NewRun returns a run that may become a task.
func (s *Service) NewRun() *Run {
	return &Run{service: s, created: make(chan *mcp.CreateTaskResult, 1), returned: make(chan ending, 1)}
}

// Serve runs a handler and returns the answer to the call: the handler's result, or the task that
// the call has become.
func Serve[Call any](ctx context.Context, r *Run, d *ask.Dialog, call Call, h func(context.Context, Call) (mcp.Result, error)) (mcp.Result, error) {
	go handle(ctx, r, d, call, h)
	select {
	case result := <-r.created:
		return result, nil
	case end := <-r.returned:
		if end.panic != nil {
			panic(end.panic) // the session core takes the value and the stack from it
		}
		return end.result, end.err
	}
}

// regionDetachable is the region of the handler's goroutine in traces of the runtime.
const regionDetachable = "detachable handler"

// handle runs on the goroutine of the handler.
func handle[Call any](ctx context.Context, r *Run, d *ask.Dialog, call Call, h func(context.Context, Call) (mcp.Result, error)) {
	end := ending{panic: &session.HandlerPanic{}}
	defer func() {
		if end.panic != nil {
			end.panic.Value, end.panic.Stack = recover(), debug.Stack()
		}
		d.EndRun()
		r.end(end)
	}()
	defer trace.StartRegion(ctx, regionDetachable).End()
	result, err := h(ctx, call)
	end = ending{result: result, err: err}
}

// end passes the outcome of the handler to its request or to its task.
func (r *Run) end(e ending) {
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
	case runDetached, runRestarted:
		r.task.Load().finish(e)
	}
}

// Restarted returns the run for a request that begins a task again, or nil for any other.
func Restarted(r *session.Request) *Run {
	run, _ := r.Restarted.(*Run)
	return run
}

// ServeAgain runs a handler that is a task from the beginning, and returns what the call of its first run was answered
// with.
func ServeAgain[Call any](ctx context.Context, r *Run, d *ask.Dialog, call Call, h func(context.Context, Call) (mcp.Result, error)) (mcp.Result, error) {
	if !r.begun.CompareAndSwap(false, true) {
		return nil, errDetached
	}
	t := r.task.Load()
	d.AnswerWith(&input{t, d})
	go handle(t.work.With(ctx), r, d, call, h)
	return r.again, nil
}

// Detach makes a task of a call, see server.Call.Detach.
func (r *Run) Detach(ctx context.Context, d *ask.Dialog, o Options) (context.Context, error) {
	if r == nil {
		return ctx, errNoTaskTool
	}
	if r.service == nil {
		return ctx, nil
	}
	restarted, err := r.begin()
	if err != nil {
		return ctx, err
	}
	if restarted {
		return r.task.Load().work.With(ctx), o.check()
	}
	t, result, err := r.service.start(ctx, d, o)
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
	d.AnswerWith(&input{t, d})
	r.created <- result
	if early != nil {
		t.finish(*early)
	}
	return t.ctx(), nil
}

// begin reserves the run for one call of Detach, and reports whether it was restarted.
func (r *Run) begin() (restarted bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch r.state {
	case runRestarted:
		r.state = runDetached
		return true, nil
	case runDetaching, runDetached:
		return false, errDetached
	case runReturned:
		return false, mcp.ErrRequestDone
	}
	r.state = runDetaching
	return false, nil
}

// Detached reports whether the run has become a task. r may be nil.
func (r *Run) Detached() bool { return r != nil && r.task.Load() != nil }

// Say sets the message of the task that the run has become, unless the message is empty. It
// returns why the handler should stop, or nil.
func (r *Run) Say(message string) error { return r.task.Load().say(message) }
