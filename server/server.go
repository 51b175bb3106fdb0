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
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/observe"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/streamable"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
	"github.com/vitrine-mcp/vitrine/server/internal/notify"
	"github.com/vitrine-mcp/vitrine/server/internal/task"
	"github.com/vitrine-mcp/vitrine/telemetry"
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

// SetErrorDetails is [WithErrorDetails] for a server that is made already, as package
// service does for an operator. It may be called at any time.
func (s *Server) SetErrorDetails(on bool) { s.routes.teller.Details.Store(on) }

// SetStateKeys is [WithStateKeys] for a server that is made already. It must be called
// before the server serves anybody, as package service does with the keys that an
// operator has set. It returns an error for a key that is too short, and for none.
func (s *Server) SetStateKeys(keys ...[]byte) error { return s.routes.asker.SetKeys(keys) }
