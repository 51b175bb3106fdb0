package server

import (
	"context"
	"sync"
)

// lifecycle has the hooks of the program.
type lifecycle struct {
	mu    sync.Mutex
	hooks []*hook
	// rootsChanged are called for notifications/roots/list_changed.
	rootsChanged []func(context.Context, *Notice)
}

// A hook is started and stopped with the server.
type hook struct {
	name        string
	start, stop func(context.Context) error // nil if there is nothing to do
	started     bool                        // start has succeeded; guarded by lifecycle.mu
}

// all returns the hooks in the order of registration.
func (l *lifecycle) all() []*hook {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]*hook(nil), l.hooks...)
}

// toStop returns the hooks that Shutdown has to stop, the last one first.
func (l *lifecycle) toStop() (hooks []*hook) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.hooks) - 1; i >= 0; i-- {
		if h := l.hooks[i]; h.stop != nil && (h.start == nil || h.started) {
			hooks = append(hooks, h)
		}
	}
	return hooks
}
