package server

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/streamable"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// An Option configures a [Server].
type Option interface{ apply(*config) }

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

// Options combines options into one, which applies them in their order.
func Options(opts ...Option) Option {
	return optionFunc(func(c *config) {
		for _, o := range opts {
			o.apply(c)
		}
	})
}

// An HTTPOption configures HTTP endpoints: all of a server if it is given to [New],
// one of them if it is given to [Server.Handler].
type HTTPOption interface {
	Option
	applyHTTP(*streamable.Config)
}

type httpOptionFunc func(*streamable.Config)

func (f httpOptionFunc) apply(c *config) { f(&c.http) }

func (f httpOptionFunc) applyHTTP(c *streamable.Config) { f(c) }

// config collects the options.
type config struct {
	title, description, websiteURL, instructions string

	icons         []mcp.Icon
	logger        *slog.Logger
	telemetry     *telemetry.Telemetry
	middleware    []middleware.Middleware
	sending       []middleware.Middleware
	class         *Class
	errorDetails  bool
	limits        Limits
	http          streamable.Config
	pageSize      int
	listTTL       time.Duration
	view          func(context.Context, *middleware.Request, Item) bool
	authenticator auth.Authenticator
	admission     []AdmissionRule
	stateKeys     [][]byte
	tasks         *Tasks
	events        eventStore
}

// WithTitle sets the name that user interfaces show.
func WithTitle(title string) Option { return optionFunc(func(c *config) { c.title = title }) }

// WithDescription says in a sentence what the server is.
func WithDescription(text string) Option { return optionFunc(func(c *config) { c.description = text }) }

// WithWebsiteURL names the server's home page.
func WithWebsiteURL(url string) Option { return optionFunc(func(c *config) { c.websiteURL = url }) }

// WithIcons sets the server's icons.
func WithIcons(icons ...mcp.Icon) Option { return optionFunc(func(c *config) { c.icons = icons }) }

// WithInstructions tells the client's model how to use the server.
func WithInstructions(text string) Option {
	return optionFunc(func(c *config) { c.instructions = text })
}

// logHandler returns the handler of the server's logger.
func (c *config) logHandler() slog.Handler {
	if c.logger == nil {
		return c.telemetry.LogHandler(nil) // of slog's default logger
	}
	return c.telemetry.LogHandler(c.logger.Handler())
}

// WithLogger sets the logger. The default is slog's, also if that is set later. Records get the trace id of
// the request that they belong to. A panic of the logger's handler costs the record and nothing else: it is
// counted as a panic of telemetry.
func WithLogger(l *slog.Logger) Option { return optionFunc(func(c *config) { c.logger = l }) }

// WithTelemetry sets where the server reports to; several servers may share one.
// [telemetry.Disabled] turns it off.
func WithTelemetry(t *telemetry.Telemetry) Option {
	return optionFunc(func(c *config) { c.telemetry = t })
}

// WithMiddleware appends to the chain that wraps every handler of requests, and those of
// the notifications that the program handles (their [middleware.Request] has no ID). The
// first is the outermost. What the server asks its clients has a chain of its own:
// [WithSendingMiddleware].
func WithMiddleware(middlewares ...middleware.Middleware) Option {
	return optionFunc(func(c *config) { c.middleware = append(c.middleware, middlewares...) })
}

// WithClass sets the class of everything that is registered without one. The handlers of a
// class share its limit on how many of them run at once. The methods of the protocol itself,
// such as lists, are in no class.
func WithClass(class *Class) Option { return optionFunc(func(c *config) { c.class = class }) }

// hasNil finds the middleware that would panic with the first route.
func hasNil(middlewares []middleware.Middleware) bool {
	return slices.ContainsFunc(middlewares, func(m middleware.Middleware) bool { return m == nil })
}

// WithLimits sets limits; the fields that are zero keep their defaults.
func WithLimits(l Limits) Option { return optionFunc(func(c *config) { c.limits = l }) }

// WithAllowedHosts names what the HTTP Host header may say. On a loopback listener
// loopback names are always allowed and others only if they are listed; elsewhere
// an empty list allows every host. "*" allows everything.
func WithAllowedHosts(hosts ...string) HTTPOption {
	return httpOptionFunc(func(c *streamable.Config) { c.AllowedHosts = hosts })
}

// WithAllowedOrigins names the origins of web pages that may call the server,
// beside its own. "*" allows everything.
func WithAllowedOrigins(origins ...string) HTTPOption {
	return httpOptionFunc(func(c *streamable.Config) { c.AllowedOrigins = origins })
}

// WithAllowedHeaders names the request headers that web pages of the allowed origins may
// send beside those of the protocol and Authorization, such as "X-Tenant": browsers ask
// before they send any other. "*" allows everything. It has no effect on clients that are
// not web pages. A name that is no token (RFC 9110) is an error.
func WithAllowedHeaders(names ...string) HTTPOption {
	return httpOptionFunc(func(c *streamable.Config) { c.AllowedHeaders = names })
}

// WithErrorDetails tells callers the whole text of every error that a handler or a
// middleware returns. It is for development: such texts may have names of tables, paths
// and addresses in them. See [mcp.ToolError] for what callers are told without it.
func WithErrorDetails() Option { return optionFunc(func(c *config) { c.errorDetails = true }) }

// SetErrorDetails is [WithErrorDetails] for a server that is made already, as package
// service does for an operator. It may be called at any time.
func (s *Server) SetErrorDetails(on bool) { s.teller.Details.Store(on) }
