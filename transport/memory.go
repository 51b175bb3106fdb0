package transport

import (
	"net"

	"github.com/vitrine-mcp/vitrine/internal/session"
)

// MemoryConn describes in-memory connections.
var MemoryConn = session.Conn{Transport: "memory", Network: "pipe"}

// Memory returns the two ends of an in-memory connection: what is written to one
// is read from the other. Writes block until they are read.
func Memory() (server, client net.Conn) { return net.Pipe() }
