package server

import (
	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/internal/auditing"
)

// WithAudit records what callers do in a log: each request of both eras and what was refused, the work
// of tasks, cancels and the notifications of the program, and sessions that are deleted. A strict log
// refuses requests for whose record there is no place, with the status 503 and the reason "audit",
// before anything else is asked. The log must be that of one server. The server does not close it:
// close it when the server has shut down. A nil log records nothing.
func WithAudit(log *audit.Log) Option {
	return optionFunc(func(c *config) {
		if c.audit = nil; log != nil {
			c.audit = func(s *Server) { SetAudit(s, log) }
		}
	})
}

// SetAudit is [WithAudit] after New. Package service uses it for a flag. It must be called once, before
// the first request. It is no method, so that programs without an audit do not link one.
func SetAudit(s *Server, log *audit.Log) {
	a := auditing.New(s.observer, s.core, log)
	s.core.SetObserver(a)
	if a.Strict() {
		s.reserve = a.Reserve
	}
	s.telemetry.AddSource(a) // never removed, as that of the server
}
