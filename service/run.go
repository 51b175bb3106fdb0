// Package service runs a server as a production process. [Run] reads flags and environment
// variables, serves MCP over Streamable HTTP or over standard input and output, opens an admin
// listener with metrics, health checks, live requests and profiles, and shuts down on a signal.
//
// Programs can do without it: the server is an http.Handler, and its telemetry has handlers for
// all pages.
package service

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// Run serves srv until SIGINT, SIGTERM or the end of ctx, and returns nil after a clean shutdown.
// With --stdio the end of standard input also begins the shutdown.
//
// The shutdown has these steps: /readyz fails. After the shutdown delay new requests are refused.
// Running requests may finish within the drain timeout and are then cancelled. The MCP listener
// is closed. The admin listener waits for one more scrape, at most for the linger timeout. The
// telemetry is flushed, the admin listener is closed, and the audit gets its last records. A second
// signal skips all waiting but that for the flush and the audit. A third signal kills the process.
//
// The start hooks of srv get a context that ends when the shutdown begins.
//
// The error says what is wrong with flags and environment, why the start failed, why a listener
// broke, or which handlers did not return (then it matches [server.ErrAbandoned]). With --help or
// --version Run returns nil without serving. With --healthcheck it asks the process with the same
// settings, and the error says why that process is not healthy.
//
// While Run runs, slog's default logger writes to standard error as configured, with trace ids. A
// process should have one active Run at a time. From Run on, a write to standard output or standard
// error without a reader fails and does not kill the process.
//
// The limits and state keys of the operator replace those of srv. Use [RunFunc] if the server
// depends on flags.
func Run(ctx context.Context, srv *server.Server, opts ...Option) error {
	return RunFunc(ctx, srv.Info(), func(context.Context, *Env) (*server.Server, error) { return srv, nil }, opts...)
}

// RunFunc is [Run] for a server that depends on the configuration. build is called once, after flags
// and environment were read and are valid. Then the flags of [WithFlags] have their values,
// slog's default logger writes as configured, and [Env.NewServer] makes a server with the
// operator's limits.
//
// With --check-config RunFunc calls build, too, and then stops the server without having started it: what build does, a
// check does. It should leave to start hooks what others notice.
//
// info describes the server when build is not called: for --help, --version, --healthcheck, and an
// invalid configuration.
//
// The context of build ends with ctx, SIGINT or SIGTERM. RunFunc returns an error of build,
// wrapped, and has started nothing then. Resources that build opens must be closed by stop hooks
// of the server, or by build before it returns an error.
func RunFunc(ctx context.Context, info mcp.Implementation, build func(context.Context, *Env) (*server.Server, error), opts ...Option) error {
	surviveBrokenPipes()
	o := newOptions(opts)
	if err := o.env.check(); err != nil {
		return err
	}
	cfg, serve, err := o.load(info)
	if err != nil || !serve {
		return err
	}
	env := &Env{Info: info, Config: cfg, configured: cfg, container: containerMemory(os.DirFS("/"))}
	if env.keys, env.keyFile, err = openKeys(&cfg); err != nil {
		return err
	}
	switches := &switches{}
	switches.level.Set(cfg.LogLevel)
	handler := newLogHandler(o.stderr, &cfg, &switches.level)
	restore := setDefaultLogger(handler)
	defer restore()
	if env.access, err = openAccess(&cfg, o.getenv(o.env.name(stdioTokenName)), o.checkOnly); err != nil {
		return err
	}
	signals := watchSignals(ctx)
	defer signals.stop() // last: until then a signal does not kill the process, and the audit gets its end
	defer env.access.closeInTime()

	srv, err := build(signals.begin, env)
	switch {
	case err != nil:
		return fmt.Errorf("service: the server could not be made: %w", err)
	case srv == nil:
		return errors.New("service: the server could not be made: there is neither a server nor an error")
	}
	setDefaultLogger(srv.Telemetry().LogHandler(handler))
	defer signals.closes(srv)()
	p := &process{srv: srv, cfg: cfg, options: o, signals: signals, access: env.access, switches: switches, broken: make(chan error, 3), container: env.container}
	if err := env.configure(srv); err != nil {
		return errors.Join(err, srv.Shutdown(ctx))
	}
	p.own = env.own
	if err := o.useStore(ctx, &cfg, srv); err != nil {
		return errors.Join(err, srv.Shutdown(ctx))
	}
	env.access.limitReached = p.limitReached
	env.access.configure(srv)
	switch err := p.makeHandlers(); {
	case err != nil:
		return errors.Join(err, srv.Shutdown(ctx))
	case o.checkOnly:
		return errors.Join(p.checkConfig(ctx), srv.Shutdown(ctx))
	}
	defer env.access.watch()()
	defer env.watchKeys(srv)()
	return p.run(ctx)
}

// An Env has the configuration with which a program makes its server; see [RunFunc].
type Env struct {
	// Info describes the server, as given to [RunFunc].
	Info mcp.Implementation
	// Config is the configuration of flags and environment. Changes to it have no effect.
	Config Config

	configured Config
	keys       Keys     // of the operator; nil if there are none
	keyFile    *keyFile // that they come from; nil if there is none
	container  int      // bytes of memory that the container allows; 0 is no limit
	access     *access

	// limited is the server whose limits were set last. Then own was what the program or the operator had reserved, and
	// reserved that with what the configuration needs.
	limited       *server.Server
	own, reserved int
}

// NewServer returns a server with e.Info. The limits and state keys of the operator replace those of
// opts before the first registration. The error is about opts or the operator's settings.
func (e *Env) NewServer(opts ...server.Option) (*server.Server, error) {
	srv, err := server.TryNew(e.Info.Name, e.Info.Version, append([]server.Option{
		server.WithTitle(e.Info.Title), server.WithDescription(e.Info.Description),
		server.WithWebsiteURL(e.Info.WebsiteURL), server.WithIcons(e.Info.Icons...),
	}, opts...)...)
	if err != nil {
		return nil, err
	}
	if err := e.configure(srv); err != nil {
		return nil, err
	}
	return srv, nil
}

// limits returns the limits of a server with those of the operator. If nobody has said how much
// memory there is, the container does. What the configuration needs is reserved beside what the program or the
// operator has reserved.
func (e *Env) limits(srv *server.Server) server.Limits {
	l := e.configured.limits(srv.ConfiguredLimits())
	if srv == e.limited && l.ReservedBytes == e.reserved {
		l.ReservedBytes = e.own
	}
	e.limited, e.own = srv, l.ReservedBytes
	l = withMemory(l, e.container)
	l = withReserved(l, reservedBytes(&e.configured, e.access, l))
	e.reserved = l.ReservedBytes
	return l
}

// configure sets the operator's settings on a server. It may be called again.
func (e *Env) configure(srv *server.Server) error {
	if err := srv.SetLimits(e.limits(srv)); err != nil {
		if e.container != 0 && e.configured.limits(srv.ConfiguredLimits()).MaxMemory == 0 {
			err = fmt.Errorf("%w (%s is not set and follows from the container: the container may use %d bytes, so raise that)", err, limits.NameMemory, e.container)
		}
		return fmt.Errorf("service: %w", err)
	}
	if e.configured.ErrorDetails {
		srv.SetErrorDetails(true)
	}
	if e.configured.SingleUseStates {
		srv.SetSingleUseStates()
	}
	if len(e.configured.Eras) > 0 {
		srv.SetEras(e.configured.Eras...)
	}
	if e.configured.RateLimits != nil {
		if err := srv.SetRateLimits(e.configured.RateLimits...); err != nil {
			return fmt.Errorf("service: %w", err)
		}
	}
	if e.keys == nil {
		return nil
	}
	if err := srv.SetStateKeys(e.keys...); err != nil {
		return fmt.Errorf("service: %w", err)
	}
	return nil
}

// watchKeys gives a server the keys of their file when that changes, until stop is called.
func (e *Env) watchKeys(srv *server.Server) (stop func()) {
	if e.keyFile == nil {
		return func() {}
	}
	srv.Telemetry().AddSource(e.keyFile) // never removed, as that of the server
	return e.keyFile.watch(srv.SetStateKeys)
}
