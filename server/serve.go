package server

import (
	"context"
	"net/http"

	"github.com/vitrine-mcp/vitrine/internal/framed"
	"github.com/vitrine-mcp/vitrine/internal/streamable"
	"github.com/vitrine-mcp/vitrine/transport"
)

// Handler returns the Streamable HTTP endpoint, to be mounted at one path of any mux (by
// convention /mcp). It serves both eras. Wrappers around it must implement Unwrap on their
// ResponseWriter; http.TimeoutHandler cannot be used.
//
// A wrapper that authenticates must pass on every request with the method OPTIONS. With it a
// browser asks, without credentials, whether a page may call the server; the answer has nothing
// else. If the wrapper refuses a request, the response has no CORS headers unless it sets them,
// so that pages do not learn why their call has failed.
//
// An option replaces the same option of [New] for this endpoint. Handler panics on an invalid
// option.
func (s *Server) Handler(opts ...HTTPOption) http.Handler {
	cfg := s.httpConfig
	for _, o := range opts {
		o.applyHTTP(&cfg)
	}
	return streamable.New(s.core, cfg)
}

// ServeStdio serves one client on standard input and output until it has sent
// its last byte, the connection breaks, ctx is cancelled or the server shuts
// down. At most one call may run in a process. The error names the handlers that
// were abandoned; it is nil after an orderly end.
func (s *Server) ServeStdio(ctx context.Context) error {
	conn, err := transport.Stdio()
	if err != nil {
		return err
	}
	return s.ServeConn(ctx, conn)
}

// ServePipe serves one client over a byte stream, one message on a line, such as
// a net.Conn. It returns as ServeStdio does and closes the pipe.
func (s *Server) ServePipe(ctx context.Context, pipe transport.Pipe) error {
	return s.ServeConn(ctx, transport.Lines(pipe))
}

// ServeConn serves one client over a connection of any kind. It may be called for many
// connections at the same time. It returns as ServeStdio does and closes the connection; nothing
// uses the connection after that, unless a write goes on although the connection was closed. If
// the authenticator refuses, the error is its [mcp.Refusal].
//
// Values of ctx reach the handlers. The end of ctx ends the connection in order: handlers are
// cancelled with the cause server_shutdown and may still answer.
func (s *Server) ServeConn(ctx context.Context, conn transport.Conn) error {
	return framed.Serve(ctx, s.core, conn)
}
