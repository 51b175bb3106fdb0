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
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/framed"
	"github.com/vitrine-mcp/vitrine/internal/observe"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/streamable"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
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
	chain        middleware.Middleware
	sending      middleware.Handler // of requests to clients; nil without middlewares
	guests       bool               // there are middlewares in chain
	class        *Class             // of the registrations that name none, or nil
	teller       *era.Teller
	encoder      *era.Encoder
	httpConfig   streamable.Config

	pageSize int
	listTTL  time.Duration
	view     func(context.Context, *middleware.Request, Item) bool
	// personal says that callers are told apart.
	personal bool

	core      *session.Core
	methods   methodTable
	tools     table[*mcp.Tool]
	prompts   table[*mcp.Prompt]
	resources table[*mcp.Resource]
	templates table[*mcp.ResourceTemplate]

	// completion says that there is something to complete.
	completion atomic.Bool
	stateKeys  keyRing
	forms      forms
	pages      pages

	extensions  extensions
	notices     notices
	happenings  happenings
	hub         *hub
	push        *push
	tasks       *tasks      // nil without the tasks extension
	honourTasks honourTasks // likewise
	// capabilities is the table of what the server announces. Only New writes to it.
	capabilities []capability

	hooks lifecycle
	ready readiness
	stop  sync.Once
}

// New returns a server that introduces itself with a name and a version. Without
// options it has telemetry of its own, logs to slog's default logger, and takes
// the default limits. New panics if an option is in error, as that is a mistake
// at start-up; see [TryNew].
func New(name, version string, opts ...Option) *Server {
	s, err := TryNew(name, version, opts...)
	if err != nil {
		panic(err)
	}
	return s
}

// TryNew is [New] that returns the error.
func TryNew(name, version string, opts ...Option) (*Server, error) {
	var cfg config
	for _, o := range opts {
		o.apply(&cfg)
	}
	if name == "" || version == "" {
		return nil, errors.New("server: a server needs a name and a version")
	}
	if hasNil(cfg.middleware) || hasNil(cfg.sending) {
		return nil, errors.New("server: a middleware is nil")
	}
	if slices.ContainsFunc(cfg.admission, func(rule AdmissionRule) bool { return rule == nil }) {
		return nil, errors.New("server: a rule of admission is nil")
	}
	if cfg.telemetry == nil {
		t, err := telemetry.New(telemetry.WithService(name, version))
		if err != nil {
			return nil, err
		}
		cfg.telemetry = t
	}
	if err := cmp.Or(cfg.limits.Check(), cfg.http.Check()); err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	if cfg.pageSize < 0 || cfg.listTTL < 0 {
		return nil, errors.New("server: neither the page size nor the list TTL may be negative")
	}
	s := &Server{
		info: mcp.Implementation{
			Name: name, Version: version, Title: cfg.title, Description: cfg.description,
			WebsiteURL: cfg.websiteURL, Icons: cfg.icons,
		},
		instructions: cfg.instructions,
		logger:       slog.New(cfg.logHandler()),
		telemetry:    cfg.telemetry,
		observer:     observe.New(cfg.telemetry),
		chain:        middleware.Chain(cfg.middleware...),
		sending:      newSendingChain(cfg.sending),
		guests:       len(cfg.middleware) > 0,
		class:        cfg.class,
		httpConfig:   cfg.http,
		pageSize:     cmp.Or(cfg.pageSize, defaultPageSize),
		listTTL:      cfg.listTTL,
		view:         cfg.view,
		personal:     cfg.authenticator != nil,
	}
	s.teller = &era.Teller{Logger: s.logger}
	s.teller.Details.Store(cfg.errorDetails)
	var err error
	s.encoder, err = era.NewEncoder(s.info, s.listHint().Scope, era.Registered{
		Tools: s.tools.holds, Prompts: s.prompts.holds, Resources: s.resources.holds, Templates: s.templates.holds,
	})
	if err != nil {
		return nil, err
	}
	if s.stateKeys, err = newKeyRing(name, cfg.stateKeys); err != nil {
		return nil, err
	}
	s.core = session.New(session.Config{
		Dispatcher: (*dispatcher)(s), Observer: s.observer, Logger: s.logger, Limits: session.Limits(cfg.limits),
		Authenticator: cfg.authenticator, Admission: admission(cfg.admission), Events: cfg.events.open(),
	})
	cfg.telemetry.AddSource(observe.Source(s.snapshot)) // for good: the last scrape comes after the drain
	s.hub = newHub(s.core)
	s.push = &push{server: s, feeds: map[*session.Session]*feed{}}
	s.tools = table[*mcp.Tool]{kind: ItemTool, changed: s.listChanged(toolsChanged)}
	s.prompts = table[*mcp.Prompt]{kind: ItemPrompt, changed: s.listChanged(promptsChanged)}
	s.resources = table[*mcp.Resource]{kind: ItemResource, changed: s.listChanged(resourcesChanged)}
	s.templates = table[*mcp.ResourceTemplate]{kind: ItemTemplate, changed: s.listChanged(resourcesChanged)}
	if cfg.tasks != nil {
		if err := s.addTasks(*cfg.tasks); err != nil {
			return nil, err
		}
	}
	s.registerTables()
	return s, nil
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
	s.core.SetLimits(session.Limits(l))
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
