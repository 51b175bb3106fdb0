package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// AddHook adds functions that start and stop something with the server, such as a connection to a
// database. The name is for people: it is in the errors and in the log.
//
// [Server.Start] calls start, in the order of registration. [Server.Shutdown] calls stop, in the
// reverse order, when the last handler has returned, and only if start has succeeded or is nil. Both
// may be nil, but not at the same time. Their errors and panics are returned and logged
// (hook.failed). AddHook panics if the name is empty or both functions are nil. The start of a hook
// that is added after Start is not called.
func (s *Server) AddHook(name string, start, stop func(context.Context) error) {
	if name == "" || start == nil && stop == nil {
		panic(fmt.Sprintf("server: hook %q: it needs a name, and something to start or to stop", name))
	}
	s.hooks.mu.Lock()
	defer s.hooks.mu.Unlock()
	s.hooks.hooks = append(s.hooks.hooks, &hook{name: name, start: start, stop: stop})
}

// ErrAbandoned is matched by errors that name abandoned handlers: those that still run although
// their context was cancelled.
var ErrAbandoned = session.ErrAbandoned

// Start calls the start functions of the hooks and returns the first error, which names its hook;
// the hooks after that one are not started. Package service calls Start before it listens. A program
// that calls it must call [Server.Shutdown] also after a Start that has failed, to stop the hooks
// that were started.
func (s *Server) Start(ctx context.Context) error {
	for _, h := range s.hooks.all() {
		if h.start == nil {
			continue
		}
		if err := s.runHook(ctx, "start", h.name, h.start); err != nil {
			return err
		}
		s.hooks.mu.Lock()
		h.started = true
		s.hooks.mu.Unlock()
	}
	if checks, probe, _ := s.ready.begin(); len(checks) == 0 {
		s.ready.note(ctx, probe, nil, nil) // without checks it is ready
	}
	return nil
}

// Shutdown drains the server. New requests are rejected. Running requests and tasks may finish until
// ctx is done; then they are cancelled with [mcp.ErrServerShutdown]. Shutdown closes all sessions and
// then calls the stop functions of the hooks. The error names the handlers that did not return, and
// the hooks that have failed. The caller must close its listeners after Shutdown.
//
// The hooks get a context with a deadline of its own (HookGrace), because ctx may be over. Abandoned
// handlers have half of that time to return before the hooks stop what the handlers may use. Then the
// log names the handlers that still run (hooks.unsafe). [Server.Close] ends that wait.
func (s *Server) Shutdown(ctx context.Context) error {
	s.PrepareShutdown()
	err := s.core.Shutdown(ctx)
	s.stop.Do(func() {
		grace := s.core.Limits().HookGrace
		ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), grace, mcp.ErrServerShutdown)
		defer cancel()
		hooks := s.hooks.toStop()
		if left := s.awaitHandlers(len(hooks), grace/2); len(left) > 0 {
			s.logger.WarnContext(ctx, "hooks.unsafe", "problem", "the stop hooks run while handlers do",
				"left", len(left), "handlers", strings.Join(left, "; "))
		}
		if s.tasks != nil {
			s.tasks.GiveUp(ctx) // before a hook closes the store
		}
		if s.link != nil {
			s.link.Close()
		}
		for _, h := range hooks {
			err = errors.Join(err, s.runHook(ctx, "stop", h.name, h.stop))
		}
	})
	return err
}

// awaitHandlers waits for abandoned handlers, if there are hooks, and returns those that still run.
func (s *Server) awaitHandlers(hooks int, patience time.Duration) (left []string) {
	if hooks == 0 {
		return nil
	}
	left = s.core.AwaitHandlers(patience, s.notices.idle())
	return append(left, s.notices.left()...)
}

// Close makes a running [Server.Shutdown] wait no longer.
func (s *Server) Close() { s.core.Close() }

// runHook calls one function of a hook and logs the outcome. It also logs that the function still
// runs when its context has ended.
func (s *Server) runHook(ctx context.Context, phase, name string, f func(context.Context) error) error {
	began := time.Now()
	warned := context.AfterFunc(ctx, func() {
		s.logger.WarnContext(ctx, "hook.slow", "hook", name, "phase", phase, "took", time.Since(began))
	})
	err := contained(ctx, f)
	warned()
	if err != nil {
		s.logger.ErrorContext(ctx, "hook.failed", "hook", name, "phase", phase, "took", time.Since(began), "error", err)
		return fmt.Errorf("server: %s hook %q: %w", phase, name, err)
	}
	s.logger.DebugContext(ctx, "hook.done", "hook", name, "phase", phase, "took", time.Since(began))
	return nil
}

// contained calls f and turns a panic into an error.
func contained(ctx context.Context, f func(context.Context) error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("it panicked: %v", v)
		}
	}()
	return f(ctx)
}

// AddReadiness adds a check that must succeed while the server is ready, such as a ping of a
// database. Each probe runs the checks one after the other. The name is in the answer to the
// probe, in the log, and a label of vitrine_readiness_changes_total. It has 1 to 128 bytes, all of printable
// characters. AddReadiness panics if the name is another one, or if the check is nil.
func (s *Server) AddReadiness(name string, check func(context.Context) error) {
	if err := checkName("readiness check", name); err != nil {
		panic(fmt.Errorf("server: %w", err))
	}
	if check == nil {
		panic(fmt.Sprintf("server: readiness check %q: the function is nil", name))
	}
	s.ready.add(readinessCheck{name, check})
}

// ErrDraining is what [Server.Ready] returns once the server shuts down.
var ErrDraining = errors.New("server: shutting down")

// saturationCheck is the name of the server's own check.
const saturationCheck = "saturation"

// Ready runs the readiness checks and returns nil if the server is ready for requests. The error has
// a line for each check that fails, with its name, or is [ErrDraining]. The server itself fails the
// check saturation while it is too full for more requests (Limits.SaturationGrace). A change is
// logged (readiness.changed) and counted.
func (s *Server) Ready(ctx context.Context) error {
	checks, probe, draining := s.ready.begin()
	if draining {
		return ErrDraining
	}
	var failed []string
	var errs []error
	for _, c := range checks {
		if err := contained(ctx, c.check); err != nil {
			failed = append(failed, c.name)
			errs = append(errs, fmt.Errorf("%s: %w", c.name, err))
		}
	}
	if full := s.core.Saturated(); full > 0 {
		failed = append(failed, saturationCheck)
		errs = append(errs, fmt.Errorf("%s: all slots have been held and the queue full for %v (limits max_in_flight_total and max_queue; "+
			"a negative saturation_grace switches this check off)", saturationCheck, full.Round(time.Second)))
	}
	err := errors.Join(errs...)
	s.ready.note(ctx, probe, failed, err)
	return err
}

// PrepareShutdown makes [Server.Ready] return [ErrDraining] while requests are still served. So load
// balancers can send requests to other servers before [Server.Shutdown], which calls it, too. Over HTTP/1.1
// each connection is closed after its answer, also if the request came before. Further calls do nothing.
func (s *Server) PrepareShutdown() {
	s.core.Leave()
	s.ready.drain()
}
