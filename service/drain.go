package service

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// drain stops serving. It makes /readyz fail, waits for the delay, drains the server, and closes
// the listener last. http.Server.Shutdown neither cancels handlers nor ends open event streams.
// And a proxy can send a refused request to another process, but not one whose connection is
// lost. At the end the admin listener waits for scrapes. hurry is closed by the second signal.
func (p *process) drain(why string, hurry <-chan struct{}) error {
	began := time.Now()
	p.draining.Store(true)
	p.srv.PrepareShutdown()
	slog.Info("drain.begin", "why", why, "shutdown_delay", p.cfg.ShutdownDelay, "drain_timeout", p.cfg.DrainTimeout)
	if p.mcp != nil && p.cfg.ShutdownDelay > 0 {
		wait(p.cfg.ShutdownDelay, hurry)
		// Clients may still have connections to this process that were idle during the delay.
		// The next call on such a connection would be refused. If it is closed, the client
		// connects to another process. A call may arrive just when its connection is closed, and
		// its client cannot know what happened to it. So with a refuse time, for clients that
		// handle refusals, connections stay open and calls are refused.
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
