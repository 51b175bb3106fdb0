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
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry/otlp"
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

// A process is one Run at work.
type process struct {
	*options
	srv     *server.Server
	cfg     Config
	signals *signals

	endpoint  *endpoint    // nil in stdio mode
	adminHTTP *http.Server // nil if it is off

	mcp      *listener     // nil in stdio mode
	admin    *listener     // nil if it is off
	stdio    chan struct{} // closed when stdio was served; nil in HTTP mode
	broken   chan error    // why serving has ended by itself
	draining atomic.Bool   // as soon as /readyz says no

	refusals logline.Limiter // of the admin listener
	last     lastScrape

	flight    *flight // nil if it is off
	flightOff string  // why it is
}

// run starts everything, waits, and stops everything. The admin listener is the
// last to go: the drain can be watched to its end.
func (p *process) run(ctx context.Context) error {
	p.startFlight()
	defer p.stopFlight()
	defer func() { p.admin.close(p.srv.Limits().CleanupGrace) }()
	p.startTelemetry(ctx)
	defer p.stopTelemetry()

	defer p.signals.stop()
	if err := p.srv.Start(p.signals.begin); err != nil {
		return errors.Join(fmt.Errorf("service: %w", err), p.srv.Shutdown(ctx))
	}
	if err := p.listen(); err != nil {
		return errors.Join(err, p.srv.Shutdown(ctx))
	}
	p.checkBudget()
	p.serve(ctx)
	p.announce()

	select {
	case <-p.signals.begin.Done():
		return p.drain(context.Cause(p.signals.begin).Error(), p.signals.hurry)
	case err := <-p.broken:
		return p.ended(err, p.signals.hurry)
	}
}

// ended drains after serving has ended by itself, for the given reason; nil is the
// orderly end of standard input.
func (p *process) ended(why error, hurry <-chan struct{}) error {
	const endOfInput = "standard input ended"
	switch {
	case why == nil:
		p.cfg.DrainTimeout = 0 // calls had their grace, and nobody can ask for a task any more
		return p.drain(endOfInput, hurry)
	case errors.Is(why, server.ErrAbandoned):
		p.srv.Close() // their grace is over; the drain reports them
		return p.drain(endOfInput, hurry)
	}
	return errors.Join(why, p.drain(why.Error(), hurry))
}

// startTelemetry starts the exports. A service whose telemetry is set up wrongly
// still serves, and says so.
func (p *process) startTelemetry(ctx context.Context) {
	tel := p.srv.Telemetry()
	if err := otlp.Start(ctx, tel); err != nil {
		slog.Error("telemetry.start", "error", err)
	}
	tel.SetGlobal()
}

// stopTelemetry sends what is left. A collector that is down at the end is no
// failure of the service.
func (p *process) stopTelemetry() {
	ctx, cancel := context.WithTimeout(context.Background(), p.cfg.FlushTimeout)
	defer cancel()
	if err := p.srv.Telemetry().Shutdown(ctx); err != nil {
		slog.Warn("telemetry.flush", "error", err)
	}
}

// startFlight arms the flight recorder if it is on. A service that cannot have one
// still serves, and says so.
func (p *process) startFlight() {
	switch {
	case !p.cfg.Flight.On:
		p.flightOff = fmt.Sprintf("the flight recorder is off; --%s or %s=true arms it", flagFlight, p.env.name(flagFlight))
		return
	case p.cfg.adminOff():
		slog.Warn("flight.start", "problem", "without an admin listener nobody could fetch a snapshot: the recorder stays off",
			"set", fmt.Sprintf("--%s or %s", flagAdminAddr, p.env.name(flagAdminAddr)))
		return
	}
	var err error
	if p.flight, err = startFlight(p.cfg.Flight, p.srv.Telemetry(), time.Now); err != nil {
		p.flightOff = "the flight recorder could not be armed: " + err.Error()
		slog.Error("flight.start", "error", err)
		return
	}
	if f := p.cfg.Flight; f.Slow >= f.Age {
		slog.Warn("flight.window", "problem", "the beginning of a slow handler will be older than the window",
			"slow", f.Slow, "age", f.Age)
	}
}

// stopFlight disarms it when nobody can ask for a snapshot any more.
func (p *process) stopFlight() {
	if p.flight != nil {
		p.flight.stop()
	}
}

// checkBudget warns of graces that a client will not wait for: it sends SIGTERM
// about two seconds after it has closed our standard input.
func (p *process) checkBudget() {
	l := p.srv.Limits()
	if grace := max(0, l.EOFGrace) + l.CleanupGrace; p.cfg.Stdio && grace >= stdioPatience {
		slog.Warn("limits.grace", "problem", "stdio clients kill a server that does not end soon after stdin",
			"eof_grace", l.EOFGrace, "cleanup_grace", l.CleanupGrace, "sum_must_be_below", stdioPatience)
	}
}

const stdioPatience = 2 * time.Second
