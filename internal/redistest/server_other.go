//go:build !unix

package redistest

import (
	"testing"

	"github.com/vitrine-mcp/vitrine/internal/needs"
)

// A Server is a Redis server, which tests run on Unix systems only.
type Server struct{}

// Start leaves out the test.
func Start(tb testing.TB, suite string, _ ...string) *Server {
	tb.Helper()
	needs.Skip(tb, suite, "Redis servers run on Unix systems only")
	return nil
}

// Addr returns no address.
func (*Server) Addr() string { return "" }
