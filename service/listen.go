package service

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
)

// makeHandlers makes the handlers before anything is started. It returns errors about the
// program's handlers.
func (p *process) makeHandlers() (err error) {
	if err := p.checkActions(); err != nil {
		return err
	}
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

// listen binds both addresses. With an error none is bound.
func (p *process) listen() error {
	var err error
	if p.endpoint != nil {
		if p.mcp, err = p.bind("MCP", flagAddr, p.cfg.Addr, p.endpoint.http); err != nil {
			return err
		}
		connections := newConnections(p.mcp.Listener, p.srv.Limits().MaxConnections, p.cfg.ReadHeaderTimeout, p.limitReached)
		p.mcp.Listener, p.mcp.tls = connections, p.access.certificates != nil
		p.srv.Telemetry().AddSource(connections) // never removed, as that of the server
		p.mcp.http.ConnState, p.mcp.http.ConnContext = noteState, withConnection
		p.warnHosts()
	}
	if p.adminHTTP != nil {
		if p.admin, err = p.bind("admin", flagAdminAddr, p.cfg.AdminAddr, p.adminHTTP); err != nil {
			p.mcp.close(p.srv.Limits().CleanupGrace)
			return err
		}
		p.admin.tls = p.access.certificates != nil
		if p.admin.tls && p.admin.Addr().(*net.TCPAddr).IP.IsLoopback() {
			p.admin.Listener = listenOptionalTLS(p.admin.Listener, p.adminHTTP.TLSConfig, p.cfg.ReadHeaderTimeout)
			p.admin.optional = true
		}
	}
	return nil
}

// warnHosts warns if the endpoint is not on loopback and takes every Host header. Then a web page
// can reach it by DNS rebinding.
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

// newHTTP returns the HTTP server of a listener. of chooses its configuration of TLS, if there is one.
func (p *process) newHTTP(h http.Handler, of func(keyPair) *tls.Config) *http.Server {
	s := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: p.cfg.ReadHeaderTimeout,
		IdleTimeout:       p.cfg.IdleTimeout,
		MaxHeaderBytes:    p.cfg.MaxHeaderBytes,
		// ReadTimeout and WriteTimeout would end long calls. The handlers set deadlines instead.
		ErrorLog:  slog.NewLogLogger(slog.Default().Handler(), slog.LevelWarn),
		Protocols: new(http.Protocols),
		HTTP2:     &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
	}
	s.Protocols.SetHTTP1(true)
	if p.access.certificates != nil {
		s.Protocols.SetHTTP2(true)
		s.TLSConfig = following(p.access.certificates, of)
	}
	return s
}

// serve starts serving. The contexts of requests have the values of ctx, but do not end with it. The
// drain ends them.
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
