package server

import "github.com/vitrine-mcp/vitrine/internal/session"

// Joined returns how many subscribers there are, in both eras.
func (s *Server) Joined() int64 { return s.hub.Joined() }

// Core shows the session core to the tests.
func (s *Server) Core() *session.Core { return s.core }

// Core shows the session core's view of the call to the tests.
func (c *Call) Core() *session.Request { return c.dialog.Core }

// BeforeDecisions sets what is called between the look-up of what a request is for and the decision about it.
func (s *Server) BeforeDecisions(f func()) {
	s.reserve = func(*session.Request) error {
		f()
		return nil
	}
}
