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
	policies      []auth.Policy
	hierarchy     auth.Hierarchy
	authenticator auth.Authenticator
	admission     []AdmissionRule
	stateKeys     [][]byte
	store         *store.Store
	singleUse     bool
	unasked       bool // answers are taken without a state
	eras          eras
	rates         []middleware.RateLimit
	tasks         *Tasks
	events        eventStore
	audit         func(*Server) // or nil
}

// check returns what is wrong with the options, or nil.
func (c *config) check() error {
	switch {
	case hasNil(c.middleware) || hasNil(c.sending):
		return errors.New("server: a middleware is nil")
	case slices.ContainsFunc(c.admission, func(rule AdmissionRule) bool { return rule == nil }):
		return errors.New("server: a rule of admission is nil")
	case slices.Contains(c.policies, nil):
		return errors.New("server: a policy is nil")
	case c.pageSize < 0 || c.listTTL < 0:
		return errors.New("server: neither the page size nor the list TTL may be negative")
	}
	if err := cmp.Or(c.limits.Check(), c.http.Check(), c.hierarchy.Check(), c.class.check()); err != nil {
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

// WithLogger sets the logger. The default is slog's default logger, also if that is set later.
// Records get the trace id of their request. If the logger's handler panics, the record is lost
// and the panic is counted as one of telemetry.
func WithLogger(l *slog.Logger) Option { return optionFunc(func(c *config) { c.logger = l }) }

// WithTelemetry sets where the server reports to; several servers may share one.
// [telemetry.Disabled] turns it off.
func WithTelemetry(t *telemetry.Telemetry) Option {
	return optionFunc(func(c *config) { c.telemetry = t })
}

// WithMiddleware appends to the chain that wraps every handler of requests, and those of
// the notifications that the program handles (their [middleware.Request] has no ID). The
// first is the outermost. Requests of the server to clients have a chain of their own:
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
// result is a [*mcp.ClientResult]; a middleware may also return one itself. A modern client gets
// the question with the answer of the call: then the error is [mcp.ErrInputRequired], which the
// middleware must return.
func WithSendingMiddleware(middlewares ...middleware.Middleware) Option {
	return optionFunc(func(c *config) { c.sending = append(c.sending, middlewares...) })
}

// WithClass sets the class of all registrations without a class. The methods of the protocol itself,
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
// beside its own. "*" allows everything. On a loopback listener the pages of all local ports may
// call it, too, as those of an inspector in a browser; [WithoutLocalOrigins] changes that.
func WithAllowedOrigins(origins ...string) HTTPOption {
	return httpOptionFunc(func(c *streamable.Config) { c.AllowedOrigins = origins })
}

// WithoutLocalOrigins refuses web pages of other local ports, unless [WithAllowedOrigins] lists
// them. It is for machines on which not every local web server is trusted.
func WithoutLocalOrigins() HTTPOption {
	return httpOptionFunc(func(c *streamable.Config) { c.RefuseLocalOrigins = true })
}

// WithAllowedHeaders names the request headers that web pages of the allowed origins may
// send beside those of the protocol and Authorization, such as "X-Tenant": browsers ask
// before they send any other. "*" allows everything. It has no effect on clients that are
// not web pages. A name that is no token (RFC 9110) is an error.
func WithAllowedHeaders(names ...string) HTTPOption {
	return httpOptionFunc(func(c *streamable.Config) { c.AllowedHeaders = slices.Clone(names) })
}

// WithTrustedProxies names the networks of the proxies in front of the server, such as 10.0.0.0/8,
// or their addresses. If the peer of an HTTP connection is one of them, the address of the caller is
// the last address of X-Forwarded-For or Forwarded (RFC 7239) that is no trusted proxy. Spans, logs,
// rate limits and the shares of callers use it. If both headers are there and contradict each
// other, the peer counts as the caller, so a proxy must overwrite or remove the one that it does not
// extend. Without the option these headers mean nothing, because every client can send them. An
// entry that is no network is an error, and so is a network of all addresses.
func WithTrustedProxies(networks ...string) HTTPOption {
	return httpOptionFunc(func(c *streamable.Config) { c.TrustedProxies = slices.Clone(networks) })
}

// WithErrorDetails tells callers the whole text of every error that a handler or a middleware
// returns. It is for development: such texts may contain names of tables, paths and addresses.
// [mcp.ToolError] explains what callers are told without it.
func WithErrorDetails() Option { return optionFunc(func(c *config) { c.errorDetails = true }) }

// WithStateKeys sets the keys that seal what clients carry: the state of multi round-trip requests,
// and the ids of legacy HTTP sessions. A key must be random and have at least 32 bytes. The first key
// seals, and all keys unseal. All servers with the same keys and the same name can go on with a request
// and serve a session, whichever of them has begun it, also after a restart.
//
// To rotate keys, add the new key as the last one of every replica, then make it the first one, and
// remove the old one when session_life has passed. [Server.SetStateKeys] replaces the
// keys while the server serves. Without the option only the process that has begun a request or a session can
// go on with it.
func WithStateKeys(keys ...[]byte) Option {
	return optionFunc(func(c *config) { c.stateKeys = keys })
}

// WithSingleUseStates has each state of a multi round-trip request accepted once. Without it a client
// can send the same answers again within state_ttl, so that a tool that asks before it pays may
// pay twice. What holds with it: of all requests with one state, one is served, also if they come
// at the same time. The server remembers its states with one bit each until they expire. Only the
// process that has issued a state accepts it: after a restart, and at another replica, the client
// must begin again, so send the rounds of one request to one replica. With a store ([WithStore]) any
// replica accepts it, and none does while the store is away. A client that has lost the answer to a
// request must begin again, too.
func WithSingleUseStates() Option { return optionFunc(func(c *config) { c.singleUse = true }) }

// WithUnaskedAnswers has answers accepted that come without a state, before anything was asked: a
// client that knows what it will be asked saves a round. Without it such answers are ignored. It must
// not be used if a tool asks for consent, because the client could give it in the name of a user who
// was never asked.
func WithUnaskedAnswers() Option { return optionFunc(func(c *config) { c.unasked = true }) }

// WithAuthenticator sets the function that finds the principal of a caller. It is called once
// for each HTTP exchange that may carry a message, before the body is read, with its context
// (to which an http.Handler around [Server.Handler] may have added values) and its header; and
// once for each byte stream, with the context of [Server.ServeStdio] or the like. A caller that
// it refuses gets the status of the refusal; a byte stream is closed.
// [middleware.Request].Principal has the principal.
//
// What outlives one request (the state of multi round-trip requests, tasks, legacy HTTP
// sessions with their streams) belongs to its principal, by issuer, subject and tenant. For all others
// it does not exist. Without the option all callers count as one.
func WithAuthenticator(a auth.Authenticator) Option {
	return optionFunc(func(c *config) { c.authenticator = a })
}

// An AdmissionRule returns nil if a request may be admitted. A [*mcp.Refusal] says how the
// request is refused. Any other error refuses it with the status 403; only the log has its
// text. A rule must be safe for concurrent use and quick: it runs on the goroutine that reads
// messages. If it panics, the request is refused.
type AdmissionRule func(ctx context.Context, req *middleware.Request) error

// WithAdmission adds rules that are called, one after the other, for each request: before it
// takes a slot or a place in a queue, before its response is begun, and before any middleware
// runs. The request has its principal; its params are not checked yet. A refused request counts
// as rejected with the reason "refused", by the Reason and By of the refusal, and never as an
// error of the service.
func WithAdmission(rules ...AdmissionRule) Option {
	return optionFunc(func(c *config) { c.admission = append(c.admission, rules...) })
}

// WithRateLimits bounds how often messages come, in both eras and on all transports. The limits are
// asked after the authenticator and the rules of [WithAdmission], and before a request takes a slot
// or a place in a queue. A message takes a token of each limit that is for it, or of none. A request
// over a limit is rejected with a [*mcp.Refusal]: the status 429, the reason "rate_limited", the
// limit's name in By and data.limit, and the time after which to retry. A notification over a limit
// is ignored (and over HTTP answered with 429). /metrics says how near each limit is. Replicas share
// the tokens if they have a store ([WithStore]).
//
// New returns an error for a limit that is wrong, and for two of the same name.
func WithRateLimits(limits ...middleware.RateLimit) Option {
	return optionFunc(func(c *config) { c.rates = append(c.rates, limits...) })
}

// WithEventStore sets the store for the events of legacy HTTP streams. The default is a store
// in the memory of the process, within the server's limits. If the store fails, the stream goes
// on and cannot be resumed.
func WithEventStore(events store.EventStore) Option {
	return optionFunc(func(c *config) { c.events = eventStore{true, events} })
}

// WithoutEventStore turns the event store off: a legacy HTTP stream ends with its connection, and
// [Call.CloseStream] is not supported.
func WithoutEventStore() Option { return WithEventStore(nil) }

// eventStore is the value of WithEventStore.
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

// WithListTTL sets how long a client may cache lists and the answer to server/discover. The
// default is 0: they are stale at once. It is rounded to milliseconds.
func WithListTTL(ttl time.Duration) Option { return optionFunc(func(c *config) { c.listTTL = ttl }) }

// WithPolicy adds policies, which decide what callers may do: for each request before it takes a slot
// or a place in a queue, and for each item of a list. All of them are asked, until one denies, and
// the strictest decision holds ([auth.Combine]). An item that is denied is in no list, a change of it is not
// announced, and a request for it is answered as if it did not exist. An item that needs scopes is
// listed, and a request for it is challenged (see [WithScopeHierarchy]). What is denied in a list is
// denied for all arguments: a policy is asked about the listed item first. Lists and resources then
// have the cache scope private.
//
// Policies are asked about tools, prompts, resources and resource templates, also when they are
// completed, subscribed to, or when a task of a tool is read, and about the program's own methods
// ([Method]). They are not asked about the protocol's methods as such. The context has the values of
// the connection or the HTTP exchange, and not those of middlewares.
func WithPolicy(policies ...auth.Policy) Option {
	return optionFunc(func(c *config) { c.policies = append(c.policies, policies...) })
}

// WithScopeHierarchy declares scopes that include others, for the scopes of tools, prompts, resources
// and resource templates ([Tool].Scopes). A caller that lacks a scope of an operation is refused with
// a challenge that names all scopes of that operation: with the status 403, or 401 if it has no
// principal. The authenticator words the challenge if it is an [auth.Challenger].
func WithScopeHierarchy(h auth.Hierarchy) Option {
	return optionFunc(func(c *config) { c.hierarchy = h })
}

// Tasks configures the tasks extension. The zero value works for one process.
type Tasks struct {
	// Store keeps the tasks. The default is in memory, or in what the replicas share ([WithStore]),
	// within the limits of the server (MaxTasks, MaxTasksPerPrincipal, MaxTaskBytes).
	Store store.TaskStore
	// PollInterval is how often clients should ask for a task without an interval of its own
	// (default 1 s).
	PollInterval time.Duration
}

// WithTasks turns the tasks extension on (io.modelcontextprotocol/tasks). Handlers of tools with
// [Tool.Task] may go on after their call was answered, see [Call.Detach].
func WithTasks(t Tasks) Option { return optionFunc(func(c *config) { c.tasks = &t }) }
