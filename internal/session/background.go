package session

import "sync"

// tasks counts background work. Unlike with a sync.WaitGroup, work may start during a wait.
type tasks struct {
	mu    sync.Mutex
	n     int
	quiet chan struct{} // closed when n reaches zero; nil if there is no wait
}

// start runs f on a goroutine of its own.
func (t *tasks) start(f func()) {
	t.mu.Lock()
	t.n++
	t.mu.Unlock()
	go func() {
		defer t.done()
		f()
	}()
}

func (t *tasks) done() {
	t.mu.Lock()
	t.n--
	var quiet chan struct{}
	if t.n == 0 {
		quiet, t.quiet = t.quiet, nil
	}
	t.mu.Unlock()
	if quiet != nil {
		close(quiet)
	}
}

// wait returns when nothing runs.
func (t *tasks) wait() {
	t.mu.Lock()
	if t.n > 0 && t.quiet == nil {
		t.quiet = make(chan struct{})
	}
	quiet := t.quiet
	t.mu.Unlock()
	if quiet != nil {
		<-quiet
	}
}
