package server

import (
	"cmp"
	"errors"
	"log/slog"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/observe"
	"github.com/vitrine-mcp/vitrine/internal/session"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server/internal/ask"
	"github.com/vitrine-mcp/vitrine/server/internal/era"
	"github.com/vitrine-mcp/vitrine/server/internal/notify"
	"github.com/vitrine-mcp/vitrine/server/internal/schema"
	"github.com/vitrine-mcp/vitrine/telemetry"
)

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
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if cfg.telemetry == nil {
		t, err := telemetry.New(telemetry.WithService(name, version))
		if err != nil {
			return nil, err
		}
		cfg.telemetry = t
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
		httpConfig:   cfg.http,
		pageSize:     cmp.Or(cfg.pageSize, defaultPageSize),
		listTTL:      cfg.listTTL,
		personal:     cfg.authenticator != nil,
		wrapped:      len(cfg.middleware) > 0,
		ready:        readiness{telemetry: cfg.telemetry},
	}
	s.ready.logger = s.logger
	s.core = session.New(session.Config{
		Dispatcher: (*dispatcher)(s), Observer: s.observer, Logger: s.logger, Limits: limits.Limits(cfg.limits),
		Authenticator: cfg.authenticator, Authorize: s.authorize, Admission: admission(cfg.admission), Events: cfg.events.open(),
	})
	s.access.setUp(s.core, &cfg)
	if cfg.audit != nil {
		cfg.audit(s)
	}
	if len(cfg.eras) > 0 {
		s.SetEras(cfg.eras...)
	}
	if err := s.SetRateLimits(cfg.rates...); err != nil {
		return nil, err
	}
	s.addRegistries()
	if err := s.addServices(&cfg); err != nil {
		return nil, err
	}
	s.registerTables()
	cfg.telemetry.AddSource(observe.Source(s.snapshot)) // never removed, because the last scrape comes after the drain
	return s, nil
}

// addRegistries makes the registries of items, and the hub that is told of their changes.
func (s *Server) addRegistries() {
	s.hub = notify.NewHub(s.core)
	s.changes = newRegistrations(s.logger, s.core)
	tells := func(list notify.Kind) func([]changedItem) {
		return func(items []changedItem) { s.announce(list, items) }
	}
	s.tools = registry[*mcp.Tool]{kind: auth.KindTool, logger: s.logger, changes: s.changes, changed: tells(notify.Tools)}
	s.prompts = registry[*mcp.Prompt]{kind: auth.KindPrompt, logger: s.logger, changes: s.changes, changed: tells(notify.Prompts)}
	s.resources = registry[*mcp.Resource]{kind: auth.KindResource, logger: s.logger, changes: s.changes, changed: tells(notify.Resources)}
	s.templates = registry[*mcp.ResourceTemplate]{kind: auth.KindTemplate, logger: s.logger, changes: s.changes, changed: tells(notify.Resources)}
}

// addServices makes the parts that handlers and subscribers use.
func (s *Server) addServices(cfg *config) (err error) {
	s.routes = router{
		core: s.core, chain: cfg.middleware, class: cfg.class, access: &s.access,
		teller: &era.Teller{Logger: s.logger},
	}
	s.routes.teller.Details.Store(cfg.errorDetails)
	s.validator = schema.NewValidator(s.core.Limits(), s.core.LimitReached)
	if s.routes.asker, err = ask.New(s.core, s.validator, s.logger, s.info.Name, cfg.stateKeys, cfg.sending); err != nil {
		return err
	}
	if len(cfg.stateKeys) > 0 {
		if err := s.sealSessions(cfg.stateKeys); err != nil {
			return err
		}
	}
	if cfg.singleUse {
		s.SetSingleUseStates()
	}
	if cfg.unasked {
		s.routes.asker.TakeUnasked()
	}
	s.encoder, err = era.NewEncoder(s.info, s.listHint().Scope, era.Registered{
		Tools: s.tools.holds, Prompts: s.prompts.holds, Resources: s.resources.holds, Templates: s.templates.holds,
	})
	if err != nil {
		return err
	}
	s.subscriptions = notify.NewSubscriptions(s.hub, (*catalog)(s))
	if cfg.tasks != nil {
		if err := s.addTasks(*cfg.tasks); err != nil {
			return err
		}
	}
	if cfg.store != nil {
		return s.SetStore(*cfg.store)
	}
	return nil
}

// snapshot returns the state of the server for telemetry.
func (s *Server) snapshot() *session.Snapshot {
	snap := s.core.Snapshot()
	snap.Readiness = s.ready.current()
	for _, e := range s.tools.all() {
		if e.target.route.Streams {
			snap.Streaming = append(snap.Streaming, e.def.Name)
		}
	}
	if s.link != nil {
		snap.Store = s.link.Info()
	}
	snap.Registrations, snap.ListChanges = s.changes.state()
	if s.tasks != nil {
		snap.Tasks, snap.TasksUnstored = s.tasks.Tally(), s.tasks.Unstored()
		if snap.Store != nil {
			snap.Store.TasksLost, snap.Store.TasksTakenOver, snap.Store.TasksFenced = s.tasks.Lost(), s.tasks.TakenOver(), s.tasks.Fenced()
		}
		if info, ok := s.tasks.Usage(); ok {
			snap.Shares = append(snap.Shares, info)
		}
	}
	snap.Shares = append(snap.Shares, s.core.Share(limits.NameValidationBytes, s.validator))
	return snap
}
