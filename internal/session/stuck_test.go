package session

import (
	"context"
	"fmt"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// A stepper is a handler that sends one notification for each step of the test,
// and then does what the test says.
type stepper struct {
	w     *world
	steps chan struct{}
	then  chan func() (mcp.Result, error)

	mu    sync.Mutex
	ctx   context.Context
	sends []error // what the sends have returned
}

func (w *world) stepper(name string) *stepper {
	k := &stepper{w: w, steps: make(chan struct{}), then: make(chan func() (mcp.Result, error), 1)}
	w.handle(name, func(ctx context.Context, r *Request) (mcp.Result, error) {
		k.mu.Lock()
		k.ctx = ctx
		k.mu.Unlock()
		for n := 1; ; n++ {
			select {
			case f := <-k.then:
				return f()
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			case <-k.steps:
				err := r.Notify(mcp.NotificationProgress, fmt.Appendf(nil, `{"n":%d}`, n), "")
				k.mu.Lock()
				k.sends = append(k.sends, err)
				k.mu.Unlock()
			}
		}
	})
	return k
}

// step lets the handler send once more.
func (k *stepper) step() {
	k.w.settle()
	k.steps <- struct{}{}
	k.w.settle()
}

// fill makes the handler hang in its third send: the first is in a write that
// blocks until the returned function is called, and the second fills a queue of
// one message.
func (k *stepper) fill(sink *scriptSink) (unblock func()) {
	k.w.t.Helper()
	c := make(chan struct{})
	unblock = sync.OnceFunc(func() { close(c) })
	k.w.t.Cleanup(unblock)
	sink.on(blockUntil(c))
	for range 3 {
		k.step()
	}
	require.Len(k.w.t, k.results(), 2, "the third send must hang")
	return unblock
}

// results are what the sends have returned so far.
func (k *stepper) results() []error {
	k.w.settle()
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.sends
}

// cause is the cause that the handler sees.
func (k *stepper) cause() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return (&held{ctx: k.ctx}).cause()
}
