package server

import (
	"context"
	"errors"
	"fmt"
)

type readinessCheck struct {
	name  string
	check func(context.Context) error
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
		if err := contained(ctx, c.check); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.name, err))
		}
	}
	return errors.Join(errs...)
}
