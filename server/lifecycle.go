package server

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// lifecycle holds what users want to be called for.
type lifecycle struct {
	mu        sync.Mutex
	starts    []func(context.Context) error
	stops     []func(context.Context) error
	readiness []readinessCheck
	// rootsChanged are called for the notification of that name.
	rootsChanged []func(context.Context, *Notice)
}

type readinessCheck struct {
	name  string
	check func(context.Context) error
}

// OnStart adds a hook that [Server.Start] runs, in the order of registration.
func (s *Server) OnStart(hook func(context.Context) error) {
	s.hooks.mu.Lock()
	defer s.hooks.mu.Unlock()
	s.hooks.starts = append(s.hooks.starts, hook)
}

// OnStop adds a hook that [Server.Shutdown] runs when the last request has ended,
// in the reverse order of registration.
func (s *Server) OnStop(hook func(context.Context) error) {
	s.hooks.mu.Lock()
	defer s.hooks.mu.Unlock()
	s.hooks.stops = append(s.hooks.stops, hook)
}

// AddReadiness adds a check without which the server is not ready to be sent
// requests, such as a ping of a database. The checks run with every probe.
func (s *Server) AddReadiness(name string, check func(context.Context) error) {
	s.hooks.mu.Lock()
	defer s.hooks.mu.Unlock()
	s.hooks.readiness = append(s.hooks.readiness, readinessCheck{name, check})
}

// ErrDraining is what [Server.Ready] returns once the server shuts down.
var ErrDraining = errors.New("server: shutting down")

// ErrAbandoned is matched by the errors that name the handlers which ignored their
// cancelled context and were left behind.
var ErrAbandoned = session.ErrAbandoned

// Ready runs the readiness checks and returns what speaks against sending requests.
func (s *Server) Ready(ctx context.Context) error {
	if s.core.Draining() {
		return ErrDraining
	}
	s.hooks.mu.Lock()
	checks := s.hooks.readiness
	s.hooks.mu.Unlock()
	var errs []error
	for _, c := range checks {
		if err := runHook(ctx, c.check); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.name, err))
		}
	}
	return errors.Join(errs...)
}

// Start runs the start hooks and returns the first error. Package service calls
// it before it listens.
func (s *Server) Start(ctx context.Context) error {
	s.hooks.mu.Lock()
	starts := s.hooks.starts
	s.hooks.mu.Unlock()
	for _, hook := range starts {
		if err := runHook(ctx, hook); err != nil {
			return err
		}
	}
	return nil
}

// Shutdown drains the server. New requests are refused with an error that says so;
// running ones and tasks may finish until ctx is done, and are then cancelled with
// [mcp.ErrServerShutdown]. It ends all sessions, then runs the stop hooks. The
// error names the handlers that did not return. Listeners are the caller's to
// close, after Shutdown. The context of the stop hooks has a time of its own
// (HookGrace), since that of a drain which took too long is over.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.core.Shutdown(ctx)
	s.stop.Do(func() {
		s.hooks.mu.Lock()
		stops := s.hooks.stops
		s.hooks.mu.Unlock()
		ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), s.core.Limits().HookGrace, mcp.ErrServerShutdown)
		defer cancel()
		if s.tasks != nil {
			s.tasks.giveUp(ctx) // before a hook closes the store
		}
		for i := len(stops) - 1; i >= 0; i-- {
			err = errors.Join(err, runHook(ctx, stops[i]))
		}
	})
	return err
}

// Close ends the patience of a running [Server.Shutdown].
func (s *Server) Close() { s.core.Close() }

// runHook contains a panic of a user's hook.
func runHook(ctx context.Context, hook func(context.Context) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("server: a hook panicked: %v", v)
		}
	}()
	return hook(ctx)
}
