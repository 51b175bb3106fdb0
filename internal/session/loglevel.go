package session

import "github.com/vitrine-mcp/vitrine/mcp"

// LogLevel returns the least severe level that a legacy client wants to be told of, or
// "" if it has not said (logging/setLevel).
func (s *Session) LogLevel() (level mcp.LoggingLevel) {
	s.update(func(st *state) { level = st.logLevel })
	return level
}

// SetLogLevel records what the client has said.
func (s *Session) SetLogLevel(level mcp.LoggingLevel) {
	s.update(func(st *state) { st.logLevel = level })
}
