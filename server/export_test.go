package server

import "github.com/vitrine-mcp/vitrine/internal/session"

// Joined returns how many subscribers there are, in both eras.
func (s *Server) Joined() int64 { return s.hub.Joined() }

// Core shows the session core to the tests.
func (s *Server) Core() *session.Core { return s.core }

// Core shows the session core's view of the call to the tests.
func (c *Call) Core() *session.Request { return c.dialog.Core }
