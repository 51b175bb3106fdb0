// Package server is where features meet the protocol: a [Server] holds tools,
// prompts and resources, wraps each handler in its middleware chain once, and serves
// modern and legacy clients with the same handlers.
//
// # Registration
//
// Tools, prompts, resources and methods are registered with functions, since methods cannot have
// type parameters: AddTool(s, definition, handler) and others. Each adds an item, or replaces the
// item with that name. A replacement is atomic, keeps its place in lists, and cursors stay valid;
// running calls go on with the old handler. The log has a debug record "registration.replaced".
// Clients are told of a replacement only if the definition has changed.
//
// The Add functions panic on a mistake in the definition. Each has a twin whose name begins with
// Try, for definitions that are made at run time: it returns the error, and after an error nothing
// has changed. [New] and [TryNew] are such a pair, too. Both may be called while the server serves.
//
// Items are removed by name, with methods of [Server] whose names begin with Remove. They ignore
// unknown names. Hooks and readiness checks, which clients do not see, are added with
// [Server.AddHook] and [Server.AddReadiness].
//
// A Server is reached over Streamable HTTP ([Server.Handler]), over standard
// input and output ([Server.ServeStdio]), over any byte stream
// ([Server.ServePipe]) or over any other transport ([Server.ServeConn]).
// Package service makes a production process of it.
package server

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/observe"
	"github.com/vitrine-mcp/vitrine/internal/rates"
	"github.com/vitrine-mcp/vitrine/internal/replica"
	"github.com/vitrine-mcp/vitrine/internal/seal"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/internal/streamable"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
	"github.com/vitrine-mcp/vitrine/server/internal/notify"
	"github.com/vitrine-mcp/vitrine/server/internal/schema"
	"github.com/vitrine-mcp/vitrine/server/internal/task"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

// A Server is an MCP server. Make one with [New]. Its methods are safe for concurrent use. What is
// registered while the server serves takes effect with the next request.
type Server struct {
	info         mcp.Implementation
	instructions string
	logger       *slog.Logger
	telemetry    *telemetry.Telemetry
	observer     *observe.Observer
	httpConfig   streamable.Config

	pageSize int
	listTTL  time.Duration
	// personal says that there is an authenticator, so that answers may depend on the caller.
	personal bool
	// wrapped says that the program has middlewares, which may change results.
	wrapped bool

	core   *session.Core
	access access
	// reserve takes the place of a request's record in the audit; nil if it needs none.
	reserve       func(*session.Request) error
	routes        router
	validator     *schema.Validator
	encoder       *era.Encoder
	hub           *notify.Hub
	link          *replica.Link // or nil: there are no other replicas
	subscriptions *notify.Subscriptions
	tasks         *task.Service // nil without the tasks extension

	methods      methodRegistry
	capabilities []capability // only New writes to it
	notices      notices
	extensions   extensions

	tools     registry[*mcp.Tool]
	prompts   registry[*mcp.Prompt]
	resources registry[*mcp.Resource]
	templates registry[*mcp.ResourceTemplate]
	changes   *registrations
	// completion says that an item has completions.
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

// ConfiguredLimits returns the limits as they were set, without defaults. Package service adds
// those of the operator to them.
func (s *Server) ConfiguredLimits() Limits { return Limits(s.core.ConfiguredLimits()) }

// SetLimits replaces the limits; fields that are zero stand for their defaults. Package service uses
// it for flags. It must be called before the first request.
func (s *Server) SetLimits(l Limits) error {
	if err := l.Check(); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	s.core.SetLimits(limits.Limits(l))
	s.validator.SetLimits(s.core.Limits())
	return nil
}

// SetAuthenticator is [WithAuthenticator] after New. Package service uses it for flags. It must be
// called before the first request.
func (s *Server) SetAuthenticator(a auth.Authenticator) {
	s.core.SetAuthenticator(a)
	s.personal = a != nil
}

// Authenticator returns the authenticator of the server, or nil. If it has a method Stale() bool, as
// local.Tokens does, package service shows the result in the metric vitrine_credentials_stale_files; also
// that of one of several ([auth.FirstOf]).
func (s *Server) Authenticator() auth.Authenticator { return s.core.Authenticator() }

// SetPolicies adds policies to those of [WithPolicy] after New. Package service uses it for a flag. It
// must be called before the first request; a second call replaces what the first has added.
func (s *Server) SetPolicies(policies ...auth.Policy) {
	s.access.combine(policies)
	s.encoder.SetScope(s.listHint().Scope)
}

// PoliciesChanged tells clients that the lists of tools, prompts and resources may have changed, because
// the policies have: for example after a file of rules was read again. It is safe for concurrent use.
func (s *Server) PoliciesChanged() {
	s.changes.policiesChanged()
	for _, list := range []notify.Kind{notify.Tools, notify.Prompts, notify.Resources} {
		s.publish(list, "")
	}
}

// SetRateLimits replaces the limits of [WithRateLimits]. Package service uses it for a flag. It must
// be called before the first request. It returns an error for a limit that is wrong, and for two of
// the same name.
func (s *Server) SetRateLimits(all ...middleware.RateLimit) error {
	rules := make([]rates.Rule, len(all))
	for i, limit := range all {
		rules[i] = rates.Rule(limit)
	}
	if err := s.core.SetRates(rules); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	return nil
}

// SetErrorDetails is [WithErrorDetails] after New. Package service uses it for a flag. It may be
// called at any time.
func (s *Server) SetErrorDetails(on bool) { s.routes.teller.Details.Store(on) }

// SetStateKeys is [WithStateKeys] after New. A server that has begun without keys must be given some before
// the first request. From then on SetStateKeys may be called at any time, also while the server serves, and
// the new keys are in use when it returns: what no key opens any more is refused. Package service calls it
// when the file of --state-keys-file changes. It returns an error for a key that is too short or not random,
// and for no keys; the keys from before stay then.
func (s *Server) SetStateKeys(keys ...[]byte) error {
	if err := s.routes.asker.SetKeys(keys); err != nil {
		return err
	}
	return s.sealSessions(keys)
}

// sealSessions seals the ids of legacy HTTP sessions with the keys. Another server with the same name
// and keys can open them.
func (s *Server) sealSessions(keys [][]byte) error {
	ring, err := seal.NewRing("Mcp-Session-Id 1 "+s.info.Name, keys)
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	if s.core.SealsSessions() {
		s.core.ReplaceKeys(ring)
		return nil
	}
	s.core.SealSessions(ring, func(sess *session.Session) { s.subscriptions.Begin(sess) })
	return nil
}

// SetSingleUseStates is [WithSingleUseStates] after New. Package service uses it for a flag. It must
// be called before the first request.
func (s *Server) SetSingleUseStates() { s.routes.asker.SetSingleUse() }
