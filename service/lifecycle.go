package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/telemetry/otlp"
)

// run starts everything, waits for the end, and stops everything. The admin listener stops last, so
// that operators can watch the drain.
func (p *process) run(ctx context.Context) error {
	defer p.switches.start(&p.cfg)()
	p.startFlight()
	defer p.stopFlight()
	defer func() { p.admin.close(p.srv.Limits().CleanupGrace) }()
	p.startTelemetry(ctx)
	defer p.stopTelemetry()

	defer p.signals.end(errStopped) // signals are watched until RunFunc has closed the audit
	if err := p.srv.Start(p.signals.begin); err != nil {
		return errors.Join(fmt.Errorf("service: %w", err), p.srv.Shutdown(ctx))
	}
	if err := p.listen(); err != nil {
		return errors.Join(err, p.srv.Shutdown(ctx))
	}
	p.setMemoryLimit()
	defer startCollector(p.getenv("GOGC"), p.srv.Limits().MaxMemory)()
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

// ended drains after serving has ended by itself. why is the reason; nil is the orderly end of
// standard input.
func (p *process) ended(why error, hurry <-chan struct{}) error {
	const endOfInput = "standard input ended"
	switch {
	case why == nil:
		p.cfg.DrainTimeout = 0 // the calls had their grace period, and no client can ask for tasks any more
		return p.drain(endOfInput, hurry)
	case errors.Is(why, server.ErrAbandoned):
		p.srv.Close() // the grace period is over; the drain reports the handlers
		return p.drain(endOfInput, hurry)
	}
	return errors.Join(why, p.drain(why.Error(), hurry))
}

// startTelemetry starts the exports. If that fails, it logs the error and the process serves
// without them.
func (p *process) startTelemetry(ctx context.Context) {
	tel := p.srv.Telemetry()
	if err := otlp.Start(ctx, tel); err != nil {
		slog.Error("telemetry.start", "error", err)
	}
	tel.SetGlobal()
}

// stopTelemetry exports the rest. An error is logged; it is no failure of the service. What is left of
// the flush time-out is for the audit. That is a fifth at least, so that an endpoint that hangs does not
// cost the audit its last records.
func (p *process) stopTelemetry() {
	began, reserved := time.Now(), time.Duration(0)
	if p.access.audit != nil {
		reserved = p.cfg.FlushTimeout / 5
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.cfg.FlushTimeout-reserved)
	defer cancel()
	if err := p.srv.Telemetry().Shutdown(ctx); err != nil {
		slog.Warn("telemetry.flush", "error", err)
	}
	p.access.closeTime = max(reserved, p.cfg.FlushTimeout-time.Since(began))
}

// startFlight starts the flight recorder if it is on. If that fails, it logs the error and the
// process serves without it.
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

// stopFlight stops the flight recorder.
func (p *process) stopFlight() {
	if p.flight != nil {
		p.flight.stop()
	}
}

// checkBudget warns if the grace periods are too long for clients. They send SIGTERM about two
// seconds after they close our standard input.
func (p *process) checkBudget() {
	l := p.srv.Limits()
	if grace := max(0, l.EOFGrace) + l.CleanupGrace; p.cfg.Stdio && grace >= stdioPatience {
		slog.Warn("limits.grace", "problem", "stdio clients kill a server that does not end soon after stdin",
			"eof_grace", l.EOFGrace, "cleanup_grace", l.CleanupGrace, "sum_must_be_below", stdioPatience)
	}
}

const stdioPatience = 2 * time.Second
