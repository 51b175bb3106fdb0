// Package server is where features meet the protocol: a [Server] holds tools,
// prompts and resources, wraps each handler in its middleware chain once, and serves
// modern and legacy clients with the same handlers.
//
// # Registration
//
// What clients see is registered with functions, since methods cannot have type
// parameters: AddTool(s, definition, handler) and its like. Each adds what it is given, or
// replaces in place what has that name: nobody finds the name absent meanwhile, it keeps its
// place in lists, cursors stay valid, and calls that run go on with the old handler. A
// debug record "registration.replaced" says so. What lists show as before is not announced.
//
// Add functions panic on a mistake in the definition, which shows at start-up. Each has a
// twin whose name begins with Try: it returns the error and leaves everything as it was,
// for definitions that are made at run time. [New] and [TryNew] are such a pair, too.
// Both may be called while the server serves.
//
// What takes away needs a name only and is a method of [Server]: Remove and the plural.
// Unknown names are ignored and announce nothing. What clients do not see, hooks and checks,
// is added with methods, too: [Server.AddHook], [Server.AddReadiness].
//
// A Server is reached over Streamable HTTP ([Server.Handler]), over standard
// input and output ([Server.ServeStdio]), over any byte stream
// ([Server.ServePipe]) or over a transport of one's own ([Server.ServeConn]).
// Package service turns it into a production process.
package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/framed"
	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/observe"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/streamable"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
	"github.com/vitrine-mcp/vitrine/server/internal/notify"
	"github.com/vitrine-mcp/vitrine/server/internal/task"
	"github.com/vitrine-mcp/vitrine/telemetry"
	"github.com/vitrine-mcp/vitrine/transport"
)

// A Server is an MCP server. Make one with [New]. All its methods may be called
// from any goroutine; what is registered while clients are served takes effect
// with the next request.
type Server struct {
	info         mcp.Implementation
	instructions string
	logger       *slog.Logger
	telemetry    *telemetry.Telemetry
	observer     *observe.Observer
	httpConfig   streamable.Config

	pageSize int
	listTTL  time.Duration
	// personal says that callers are told apart.
	personal bool
	// guests says that there are middlewares around the handlers.
	guests bool

	core          *session.Core
	routes        router
	encoder       *era.Encoder
	hub           *notify.Hub
	subscriptions *notify.Subscriptions
	tasks         *task.Service // nil without the tasks extension

	methods      methodTable
	capabilities []capability // only New writes to it
	notices      notices
	extensions   extensions

	tools     table[*mcp.Tool]
	prompts   table[*mcp.Prompt]
	resources table[*mcp.Resource]
	templates table[*mcp.ResourceTemplate]
	// completion says that there is something to complete.
	completion atomic.Bool

	hooks lifecycle
	ready readiness
	stop  sync.Once
}

// Info returns how the server introduces itself.
func (s *Server) Info() mcp.Implementation { return s.info }

// Telemetry returns the telemetry that the server reports to.
func (s *Server) Telemetry() *telemetry.Telemetry { return s.telemetry }

// Limits returns the limits in force.
func (s *Server) Limits() Limits { return Limits(s.core.Limits()) }

// SetLimits replaces the limits; fields that are zero stand for their defaults. It
// must be called before the server serves anybody, as package service does with the
// limits that an operator has set.
func (s *Server) SetLimits(l Limits) error {
	if err := l.Check(); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	s.core.SetLimits(limits.Limits(l))
	return nil
}

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
