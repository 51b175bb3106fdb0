// Package service makes a production process of a server: [Run] reads the
// configuration from flags and environment, serves MCP over Streamable HTTP or
// standard input and output, opens an admin listener with metrics, health, live
// requests and profiles, and ends in an orderly way when it is told to.
//
// Everything that it puts together is reachable without it: the server is an
// http.Handler, and its telemetry has handlers of its own.
package service

import (
	"context"
	"errors"
	"fmt"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// Run serves srv until the process is told to end, and returns nil after a clean
// shutdown. SIGINT, SIGTERM and the end of ctx begin the shutdown: /readyz says
// no; after the shutdown delay new requests are refused; running ones may finish
// within the drain timeout and are then cancelled; the MCP listener is closed; the last
// figures wait for a scrape, at most for the linger timeout; the telemetry is flushed, and
// the admin listener is closed. A second signal ends all patience, a third the process.
// With --stdio the end of standard input begins the shutdown as well.
//
// The start hooks of srv get a context that ends when the shutdown begins.
//
// The error says what is wrong with flags and environment, why the start failed,
// why a listener broke, or which handlers did not return (it then matches
// [server.ErrAbandoned]). Run returns nil without serving if it is asked for
// --help or --version. Asked for --healthcheck it does not serve either: the error
// says why the process that runs with the same settings is not well, nil that it is.
//
// While it runs, slog's default logger writes to standard error as configured,
// with trace ids. One Run at a time should be active in a process.
//
// The limits and state keys of the operator replace those of srv. A server that needs
// its flags when it is made is for [RunFunc].
func Run(ctx context.Context, srv *server.Server, opts ...Option) error {
	return RunFunc(ctx, srv.Info(), func(context.Context, *Env) (*server.Server, error) { return srv, nil }, opts...)
}

// RunFunc is [Run] for a server that is made when the configuration is known: build is
// called once, after flags and environment were read and found to be right. The flags of
// [WithFlags] have their values then, slog's default logger writes as configured, and
// [Env.NewServer] makes a server in which the operator's limits are in force.
//
// info introduces the server where none is made: build is not called for --help,
// --version, --healthcheck, or a configuration that is in error.
//
// The context of build ends with ctx and with SIGINT or SIGTERM. An error of build is
// returned, wrapped; nothing was started then. What build opens is to be closed by the
// stop hooks of the server, or by build itself before it returns an error.
func RunFunc(ctx context.Context, info mcp.Implementation, build func(context.Context, *Env) (*server.Server, error), opts ...Option) error {
	o := newOptions(opts)
	if err := o.env.check(); err != nil {
		return err
	}
	cfg, serve, err := o.load(info)
	if err != nil || !serve {
		return err
	}
	env := &Env{Info: info, Config: cfg, configured: cfg}
	if env.keys, err = cfg.stateKeys(); err != nil {
		return err
	}
	handler := newLogHandler(o.stderr, &cfg)
	restore := setDefaultLogger(handler)
	defer restore()
	signals := watchSignals(ctx)
	defer signals.stop()

	srv, err := build(signals.begin, env)
	switch {
	case err != nil:
		return fmt.Errorf("service: the server could not be made: %w", err)
	case srv == nil:
		return errors.New("service: the server could not be made: there is neither a server nor an error")
	}
	setDefaultLogger(srv.Telemetry().LogHandler(handler))
	defer signals.closes(srv)()
	p := &process{srv: srv, cfg: cfg, options: o, signals: signals, broken: make(chan error, 3)}
	if err := env.configure(srv); err != nil {
		return errors.Join(err, srv.Shutdown(ctx))
	}
	if err := p.makeHandlers(); err != nil {
		return errors.Join(err, srv.Shutdown(ctx))
	}
	return p.run(ctx)
}

// An Env is what a program knows when it makes its server; see [RunFunc].
type Env struct {
	// Info introduces the server, as it was given to [RunFunc].
	Info mcp.Implementation
	// Config is what flags and environment say. Changes to it have no effect.
	Config Config

	configured Config
	keys       Keys // of the operator; nil if there are none
}

// NewServer returns a server that introduces itself with e.Info. The limits and the state
// keys of the operator replace those of opts, from before the first registration on. The
// error is about opts, or about what the operator has set.
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

// configure gives a server what the operator has set. It may be called again.
func (e *Env) configure(srv *server.Server) error {
	if err := srv.SetLimits(e.configured.limits(srv.Limits())); err != nil {
		return fmt.Errorf("service: %w", err)
	}
	if e.configured.ErrorDetails {
		srv.SetErrorDetails(true)
	}
	if e.keys == nil {
		return nil
	}
	if err := srv.SetStateKeys(e.keys...); err != nil {
		return fmt.Errorf("service: %w", err)
	}
	return nil
}
