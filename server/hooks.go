package server

import (
	"context"
	"sync"
)

// lifecycle holds what users want to be called for.
type lifecycle struct {
	mu    sync.Mutex
	hooks []*hook
	// rootsChanged are called for the notification of that name.
	rootsChanged []func(context.Context, *Notice)
}

// A hook is what a program starts and stops with the server.
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

// toStop returns the hooks whose stop is to run, the last one first.
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
