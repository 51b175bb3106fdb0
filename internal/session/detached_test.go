package session

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A taskRecorder is an observer that keeps what it was told of detached work.
type taskRecorder struct {
	NopObserver
	mu   sync.Mutex
	told []string
	// during is called within each callback.
	during func(callback string, d *Detached)
}

func (o *taskRecorder) tell(callback string, d *Detached) {
	o.mu.Lock()
	o.told = append(o.told, callback)
	o.mu.Unlock()
	if o.during != nil {
		o.during(callback, d)
		o.mu.Lock()
		defer o.mu.Unlock()
		o.told = append(o.told, "end of "+callback)
	}
}

func (o *taskRecorder) Detached(ctx context.Context, _ *Request, d *Detached) context.Context {
	o.tell("detached", d)
	d.Observation = "known"
	return ctx
}

func (o *taskRecorder) Cancelled(w Work, err *mcp.CancelError, _ string) {
	o.task("cancelled "+string(err.Cause), w)
}
func (o *taskRecorder) Panicked(w Work, _ any, _ []byte) { o.task("panicked", w) }
func (o *taskRecorder) Abandoned(w Work)                 { o.task("abandoned", w) }

func (o *taskRecorder) Finished(w Work) {
	if d, ok := w.(*Detached); ok {
		o.tell("finished "+string(d.End().Status), d)
	}
}

// task keeps what it was told, unless it is about a request.
func (o *taskRecorder) task(callback string, w Work) {
	if d, ok := w.(*Detached); ok {
		o.tell(callback, d)
	}
}

// TestDetachedIsObserved: the observer is told of each thing once, of the beginning first
// and of the end last, whatever happens at the same time.
func TestDetachedIsObserved(t *testing.T) {
	abandonGrace := limits.Limits{}.WithDefaults().AbandonGrace
	for name, tc := range map[string]struct {
		during func(callback string, d *Detached)
		play   func(w *world, d *detachedWork)
		want   []string
	}{
		"ended": {
			play: func(_ *world, d *detachedWork) { d.Done() },
			want: []string{"detached", "finished completed"},
		},
		"cancelled, abandoned, returned": {
			play: func(_ *world, d *detachedWork) {
				d.Cancel(&mcp.CancelError{Cause: mcp.CauseDeadline})
				time.Sleep(2 * abandonGrace)
				d.Panicked("ouch", nil)
				d.Done()
			},
			want: []string{"detached", "cancelled deadline", "abandoned", "panicked", "finished failed"},
		},
		"cancelled before the observer knows of it": {
			during: func(callback string, d *Detached) {
				if callback == "detached" {
					require.True(t, d.Cancel(&mcp.CancelError{Cause: mcp.CauseServerShutdown}))
				}
			},
			play: func(_ *world, d *detachedWork) { d.Done() },
			want: []string{
				"detached", "end of detached", "cancelled server_shutdown", "end of cancelled server_shutdown",
				"finished completed", "end of finished completed",
			},
		},
		"ended while it is being cancelled": {
			during: func(callback string, d *Detached) {
				if callback == "cancelled client_cancel" {
					d.Done(DetachedEnd{Status: mcp.TaskCancelled})
					require.Len(t, d.core.Snapshot().Detached, 1)
				}
			},
			play: func(_ *world, d *detachedWork) { d.Cancel(&mcp.CancelError{Cause: mcp.CauseClientCancel}) },
			want: []string{
				"detached", "end of detached", "cancelled client_cancel", "end of cancelled client_cancel",
				"finished cancelled", "end of finished cancelled",
			},
		},
		"ended while it is being abandoned": {
			during: func(callback string, d *Detached) {
				if callback == "abandoned" {
					d.Done(DetachedEnd{Status: mcp.TaskCompleted})
				}
			},
			play: func(_ *world, d *detachedWork) {
				d.Cancel(&mcp.CancelError{Cause: mcp.CauseClientCancel})
				time.Sleep(2 * abandonGrace)
			},
			want: []string{
				"detached", "end of detached", "cancelled client_cancel", "end of cancelled client_cancel",
				"abandoned", "end of abandoned", "finished cancelled", "end of finished cancelled",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, limits.Limits{}, func(w *world) {
				rec := &taskRecorder{during: tc.during}
				w.core.observer = rec
				k := w.detacher("work")
				w.connect(true).call("1", "work")
				d := k.next()
				require.Equal(t, "known", d.Observation)
				tc.play(w, d)
				w.settle()
				require.Equal(t, tc.want, rec.told)
				require.Empty(t, w.core.Snapshot().Detached)
				require.Zero(t, w.core.Snapshot().Counters.ObserverPanics)
			})
		})
	}
}

// The drain would not cancel what enters while it cancels what is left.
func TestDetachWhileADrainCancels(t *testing.T) {
	inWorld(t, limits.Limits{}, func(w *world) {
		rec := &taskRecorder{}
		w.core.observer = rec
		k, g, p := w.detacher("work"), w.gate("other", true), w.connect(true)
		p.call("1", "work")
		p.call("2", "other")
		d, h := k.next(), g.next()
		var late *Detached
		var refused *mcp.Error
		rec.during = func(callback string, _ *Detached) {
			if callback == "cancelled server_shutdown" {
				late, refused = w.core.Detach(h.ctx, h.r, "late", time.Now().Add(time.Minute))
			}
		}
		deadline, done := w.shutdown()
		deadline()
		w.settle()
		require.Nil(t, late)
		require.Equal(t, mcp.ErrorData{Reason: "shutting_down"}, refused.Data)
		d.Done()
		h.finish("done")
		require.NoError(t, <-done)
	})
}

// Abandoned work that returns late gives the slot of its class back before it is logged: a log
// handler may block.
func TestLateTaskFreesItsClassBeforeItIsLogged(t *testing.T) {
	inWorld(t, limits.Limits{}, func(w *world) {
		class := NewClass("single", 1)
		k := w.detacher("work")
		w.route("work", func(rt *Route) { rt.Class = class })
		w.connect(true).call("1", "work")
		d := k.next()
		d.Cancel(&mcp.CancelError{Cause: mcp.CauseClientCancel})
		time.Sleep(2 * limits.Limits{}.WithDefaults().AbandonGrace)
		require.Equal(t, 1, class.pool.Usage().Used, "the handler runs on")
		free := false
		w.log.whenLogged(func(record string) {
			if record == "handler.returned" {
				free = class.pool.Usage().Used == 0
			}
		})
		d.Done()
		w.settle()
		require.True(t, free)
	})
}

// TestStoppedEnd: what a client is told of a task follows from the cause.
func TestStoppedEnd(t *testing.T) {
	for _, cause := range mcp.Causes() {
		end := StoppedEnd(cause)
		require.False(t, end.ToolError)
		if !cause.Fault() {
			require.Equal(t, DetachedEnd{Status: mcp.TaskCancelled}, end)
			continue
		}
		require.Equal(t, mcp.TaskFailed, end.Status)
		require.Equal(t, mcp.ErrorData{Reason: string(cause)}, end.Error.Data)
	}
}
