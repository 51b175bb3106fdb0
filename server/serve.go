package server

import (
	"context"
	"net/http"

	"github.com/vitrine-mcp/vitrine/internal/framed"
	"github.com/vitrine-mcp/vitrine/internal/streamable"
	"github.com/vitrine-mcp/vitrine/transport"
)

// Handler returns the Streamable HTTP endpoint, to be mounted at one path of any
// mux (by convention /mcp). It serves both eras. Wrappers around it must
// implement Unwrap on their ResponseWriter; http.TimeoutHandler cannot be used.
//
// A wrapper that authenticates passes on every request with the method OPTIONS: that is
// how a browser asks whether a page may call the server, always without credentials, and
// no more than that is answered. A refusal of the wrapper's own has no CORS headers
// unless it sets them, so that pages learn that their call has failed and not why.
//
// An option that is given replaces, for this endpoint, the one of [New]. Handler panics
// if one is in error, as that is a mistake at start-up.
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
