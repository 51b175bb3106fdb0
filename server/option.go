package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/resume"
	"github.com/vitrine-mcp/vitrine/internal/streamable"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/store"
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

// check returns what is wrong with the options, or nil.
func (c *config) check() error {
	switch {
	case hasNil(c.middleware) || hasNil(c.sending):
		return errors.New("server: a middleware is nil")
	case slices.ContainsFunc(c.admission, func(rule AdmissionRule) bool { return rule == nil }):
		return errors.New("server: a rule of admission is nil")
	case c.pageSize < 0 || c.listTTL < 0:
		return errors.New("server: neither the page size nor the list TTL may be negative")
	}
	if err := cmp.Or(c.limits.Check(), c.http.Check()); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	return nil
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

// WithSendingMiddleware appends to the chain that wraps every request of the server to a
// client: what [Call.Elicit], [Call.Sample], [Call.Roots] and [Call.CallClient] ask. It is a
// chain of its own, because a middleware that limits or checks what callers do must not
// do so to what the server itself sends. The first is the outermost.
//
// The request has the method and params of the question, the peer and the principal of the
// call that asks, and no ID yet. A middleware may pass on a copy with other params. The
// result is a [*mcp.ClientResult]; a middleware may answer by itself with one. Where the
// question leaves with the answer of the call, to be answered with the next request, the
// error is [mcp.ErrInputRequired], which is to be passed on.
func WithSendingMiddleware(middlewares ...middleware.Middleware) Option {
	return optionFunc(func(c *config) { c.sending = append(c.sending, middlewares...) })
}

// WithClass sets the class of everything that is registered without one. The handlers of a
// class share its limit on how many of them run at once. The methods of the protocol itself,
// such as lists, are in no class.
func WithClass(class *Class) Option { return optionFunc(func(c *config) { c.class = class }) }

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

// WithStateKeys sets the keys that seal the state of multi round-trip requests. Keys
// are random and have 32 bytes or more. The first seals; all of them unseal, so that a
// key is rotated by putting a new one first and taking the old one away when
// state_ttl has passed. Replicas that serve the same clients need the same keys;
// without the option the key is random, and a request can be continued only by the
// process that has begun it. A key should seal at most 2^32 states.
func WithStateKeys(keys ...[]byte) Option {
	return optionFunc(func(c *config) { c.stateKeys = keys })
}

// WithAuthenticator finds out who calls: once for each HTTP exchange that may carry a
// message, with its context (in which an http.Handler around [Server.Handler] may have left
// what it knows) and its header, before the body is read; and once for each byte stream,
// with the context of [Server.ServeStdio] or the like. A caller that is refused is answered
// with the status of the refusal; a byte stream is closed. [middleware.Request].Principal has
// what was found.
//
// What outlives one request (the state of multi round-trip requests, tasks, legacy HTTP
// sessions with their streams) is bound to its principal, by issuer and subject: for all
// others it does not exist. Without the option all callers count as one.
func WithAuthenticator(a auth.Authenticator) Option {
	return optionFunc(func(c *config) { c.authenticator = a })
}

// An AdmissionRule decides whether a request may be admitted; nil lets it in. A
// [*mcp.Refusal] says how it is refused, any other error refuses it with the status 403
// and is for the operator alone. It must be safe for concurrent use and quick: it runs
// where messages are read. If it panics the request is refused.
type AdmissionRule func(ctx context.Context, req *middleware.Request) error

// WithAdmission adds rules that are asked, one after the other, about each request before
// it takes a slot or a place in a queue, before its response is begun, and before any
// middleware runs. The request has its principal; its params are known and not checked.
// What a rule refuses counts as rejected with the reason "refused", by the Reason and By of
// its refusal, and never as an error of the service.
func WithAdmission(rules ...AdmissionRule) Option {
	return optionFunc(func(c *config) { c.admission = append(c.admission, rules...) })
}

// WithEventStore sets where the events of legacy HTTP streams are kept. The default is
// a store in the memory of the process, within the server's limits. A store that
// fails never fails a request: its stream goes on without being resumable.
func WithEventStore(events store.EventStore) Option {
	return optionFunc(func(c *config) { c.events = eventStore{true, events} })
}

// WithoutEventStore keeps no events: a legacy HTTP stream ends with its connection, and
// [Call.CloseStream] is not supported.
func WithoutEventStore() Option { return WithEventStore(nil) }

// eventStore is the choice of an event store.
type eventStore struct {
	chosen bool
	store  store.EventStore
}

// open returns the store, by default a new one in memory, or nil.
func (e eventStore) open() store.EventStore {
	if !e.chosen {
		return resume.NewMemory()
	}
	return e.store
}

// WithPageSize sets how many tools, prompts, resources or templates one page of
// their list has at most (default 1000).
func WithPageSize(n int) Option { return optionFunc(func(c *config) { c.pageSize = n }) }

// WithListTTL says how long a client may keep what it learns about the server: the
// lists and the answer to server/discover (default 0: stale at once, but for the
// notifications of changes). It is rounded to milliseconds.
func WithListTTL(ttl time.Duration) Option { return optionFunc(func(c *config) { c.listTTL = ttl }) }

// WithView makes what a caller sees depend on the request, as a rule on its
// authorization: an item for which visible returns false is in no list, and using it
// is answered as if it did not exist. The function runs inside the server's middleware
// chain, so that ctx has what that has found out, and before anything of the item's own. It is
// called for every item of a list, from many goroutines, and must be quick. The lists, and
// the resources, are then cacheable by the caller alone.
//
// A modern client expects that what it sees depends on its authorization and on
// nothing else.
func WithView(visible func(ctx context.Context, req *middleware.Request, item Item) bool) Option {
	return optionFunc(func(c *config) { c.view = visible })
}

// Tasks configures the tasks extension. The zero value is good for one process.
type Tasks struct {
	// Store keeps the tasks. The default is in memory, within the limits of the server
	// (MaxTasks, MaxTasksPerPrincipal, MaxTaskBytes).
	Store store.TaskStore
	// PollInterval is how often clients should ask for a task that says nothing else
	// (default 1 s).
	PollInterval time.Duration
}

// WithTasks turns the tasks extension on (io.modelcontextprotocol/tasks): the handlers
// of tools with [Tool.Task] set may go on after their call was answered, see
// [Call.Detach].
func WithTasks(t Tasks) Option { return optionFunc(func(c *config) { c.tasks = &t }) }
