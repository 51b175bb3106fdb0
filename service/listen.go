package service

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
)

// makeHandlers makes what will be served, before anything is started: a mistake in the
// program's own handlers is found here.
func (p *process) makeHandlers() (err error) {
	if !p.cfg.Stdio {
		if p.endpoint, err = p.newEndpoint(); err != nil {
			return err
		}
	}
	if !p.cfg.adminOff() {
		p.adminHTTP, err = p.newAdmin()
	}
	return err
}

// listen binds both addresses, or none.
func (p *process) listen() error {
	var err error
	if p.endpoint != nil {
		if p.mcp, err = p.bind("MCP", flagAddr, p.cfg.Addr, p.endpoint.http); err != nil {
			return err
		}
		p.warnHosts()
	}
	if p.adminHTTP != nil {
		if p.admin, err = p.bind("admin", flagAdminAddr, p.cfg.AdminAddr, p.adminHTTP); err != nil {
			p.mcp.close(p.srv.Limits().CleanupGrace)
			return err
		}
	}
	return nil
}

// warnHosts warns of an endpoint that everybody can reach under any name: a web page
// can then reach it through a name that it has rebound.
func (p *process) warnHosts() {
	addr := p.mcp.Addr().(*net.TCPAddr)
	e, ok := p.endpoint.mcp.(interface{ RestrictsHosts() bool })
	if !ok || e.RestrictsHosts() || addr.IP.IsLoopback() {
		return
	}
	slog.Warn("listener.hosts", "addr", addr.String(),
		"problem", "the listener is not a loopback one, and every Host header is taken",
		"set", fmt.Sprintf("--%s or %s, to the names under which clients reach it", flagAllowedHosts, p.env.name(flagAllowedHosts)))
}

func (p *process) bind(what, flagName, addr string, server *http.Server) (*listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("service: the %s listener: %w (--%s or %s sets another address)",
			what, err, flagName, p.env.name(flagName))
	}
	return &listener{Listener: l, http: server}, nil
}

// newHTTP returns the HTTP server of a listener.
func (p *process) newHTTP(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: p.cfg.ReadHeaderTimeout,
		IdleTimeout:       p.cfg.IdleTimeout,
		MaxHeaderBytes:    p.cfg.MaxHeaderBytes,
		// No ReadTimeout and no WriteTimeout: they would end long calls. The handlers set
		// deadlines.
		ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelWarn),
	}
}

// serve begins to serve. The requests keep the values of ctx, not its end: the
// drain decides when they are over.
func (p *process) serve(ctx context.Context) {
	base := context.WithoutCancel(ctx)
	p.mcp.serve(base, p.broken)
	p.admin.serve(base, p.broken)
	if !p.cfg.Stdio {
		return
	}
	p.stdio = make(chan struct{})
	go func() {
		defer close(p.stdio)
		p.broken <- p.srv.ServeStdio(base)
	}()
}
