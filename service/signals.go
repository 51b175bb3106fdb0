package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/vitrine-mcp/vitrine/server"
)

// signals ends a context on a signal.
type signals struct {
	begin context.Context // ends with ctx or the first signal; its cause says which of them
	end   context.CancelCauseFunc
	hurry chan struct{} // closed by the second signal
	stop  func()        // stops watching and waits for its goroutine; further calls do nothing
}

// drain begins the drain, as the first signal does, and reports whether it has not begun before.
func (s *signals) drain() bool {
	first := s.begin.Err() == nil
	s.end(errOrdered)
	return first
}

// closes closes the server on the second signal, or at once if that has come. release stops this.
func (s *signals) closes(srv *server.Server) (release func()) {
	released, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-s.hurry:
			srv.Close()
		case <-released:
		}
	}()
	return func() {
		close(released)
		<-done
	}
}

// watchSignals watches for SIGINT and SIGTERM. After the second signal they have their default
// effect, so that a third one kills the process.
func watchSignals(ctx context.Context) *signals {
	begin, cancel := context.WithCancelCause(ctx)
	s := &signals{begin: begin, end: cancel, hurry: make(chan struct{})}
	incoming := make(chan os.Signal, 2)
	signal.Notify(incoming, os.Interrupt, syscall.SIGTERM)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for first := true; ; first = false {
			select {
			case <-quit:
				return
			case sig := <-incoming:
				if ordered := context.Cause(begin) == errOrdered; begin.Err() == nil || ordered && first {
					cancel(fmt.Errorf("signal: %v", sig)) // no change if an operator has ordered the drain
					continue
				}
				signal.Stop(incoming)
				slog.Warn("drain.hurry", "why", fmt.Sprintf("signal: %v", sig))
				close(s.hurry)
				return
			}
		}
	}()
	s.stop = sync.OnceFunc(func() {
		signal.Stop(incoming)
		close(quit)
		<-done
		cancel(errStopped)
	})
	return s
}

// pipeSignals gets the signals of surviveBrokenPipes. Nobody reads them.
var pipeSignals = make(chan os.Signal, 1)

// surviveBrokenPipes has writes to a standard output or a standard error without a reader fail, until
// the process ends. By default such a write kills a Go program, so that the end of a log collector
// would end the server with it.
func surviveBrokenPipes() { signal.Notify(pipeSignals, syscall.SIGPIPE) }

var (
	errStopped = errors.New("service: stopped")
	errOrdered = errors.New("an operator has ordered it")
)

// wait waits for a duration or until hurry is closed.
func wait(d time.Duration, hurry <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-hurry:
	}
}
