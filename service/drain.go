package service

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// drain ends the serving: not ready, the delay, the server's own drain, and only
// then the listener, because http.Server.Shutdown neither cancels handlers nor
// ends open event streams, and because a proxy that still sends requests here can
// send those elsewhere that are refused, but not those whose connection is lost. Then
// the admin listener lingers.
// hurry is closed by the second signal.
func (p *process) drain(why string, hurry <-chan struct{}) error {
	began := time.Now()
	p.draining.Store(true)
	p.srv.PrepareShutdown()
	slog.Info("drain.begin", "why", why, "shutdown_delay", p.cfg.ShutdownDelay, "drain_timeout", p.cfg.DrainTimeout)
	if p.mcp != nil && p.cfg.ShutdownDelay > 0 {
		wait(p.cfg.ShutdownDelay, hurry)
		// Connections over which nobody has called during the delay lead here, too. Their
		// next call would be refused; closed, they are opened again elsewhere. Without a delay
		// they are not known to be idle. Even so a call may be on its way just then, and nobody
		// knows what became of it: who learns from refusals, as a refuse time says, is refused.
		if p.cfg.RefuseTime <= 0 {
			p.mcp.http.SetKeepAlivesEnabled(false)
		}
		slog.Info("drain.refusing", "after", time.Since(began))
	}
	refusing := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), p.cfg.DrainTimeout)
	defer cancel()
	err := p.srv.Shutdown(ctx)
	if left := p.cfg.RefuseTime - time.Since(refusing); p.mcp != nil && left > 0 {
		wait(left, hurry)
	}
	p.mcp.close(p.srv.Limits().CleanupGrace)
	if p.stdio != nil {
		<-p.stdio
	}
	if err != nil {
		slog.Error("drain.end", "took", time.Since(began), "error", err)
		err = fmt.Errorf("service: shutdown: %w", err)
	} else {
		slog.Info("drain.end", "took", time.Since(began))
	}
	p.linger(hurry)
	return err
}
