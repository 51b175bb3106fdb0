package resume

import "github.com/vitrine-mcp/vitrine/mcp"

// A Session is what the logs of a session must know of it. It must be safe for concurrent use.
type Session interface {
	// LogAttrs returns the fields by which logs name the session and its client.
	LogAttrs() []any
	// Tell tells another replica of a stream of the session.
	Tell(replica string, m Signal)
	// Revision returns the revision that the client has agreed on, or "" before that, and
	// whether the session is open.
	Revision() (v mcp.Version, open bool)
}
