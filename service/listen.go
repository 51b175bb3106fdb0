package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// flagAllowedHosts is named where a listener takes every host.
const flagAllowedHosts = "allowed-hosts"

// A listener is a bound address and the HTTP server on it.
type listener struct {
	net.Listener
	http *http.Server
	done chan struct{} // closed when serving has ended; nil before it began
}

// listen binds both addresses, or none.
func (p *process) listen() error {
	var err error
	if !p.cfg.Stdio {
		mux := http.NewServeMux()
		endpoint := p.srv.Handler(p.httpOptions()...)
		mux.Handle(exact(p.cfg.Path), endpoint)
		if p.mcp, err = p.bind("MCP", flagAddr, p.cfg.Addr, p.newHTTP(p.leaving(mux))); err != nil {
			return err
		}
		p.warnHosts(endpoint)
		if p.cfg.H2C {
			p.mcp.http.Protocols = new(http.Protocols)
			p.mcp.http.Protocols.SetHTTP1(true)
			p.mcp.http.Protocols.SetUnencryptedHTTP2(true)
		}
	}
	if !p.cfg.adminOff() {
		if err = p.listenAdmin(); err != nil {
			p.mcp.close(p.srv.Limits().CleanupGrace)
			return err
		}
	}
	return nil
}

// leaving asks clients to come back over another connection as soon as the process is
// about to end. A connection that a client keeps bypasses whatever has noticed that by
// looking at /readyz.
//
// A stream that stands is not over before that, and has to say so when it begins: else its
// client opens the next one over the same connection, and is refused.
func (p *process) leaving(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.draining.Load() || r.ProtoMajor == 1 && stands(r) {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// stands reports whether a request opens a stream that the server does not end by itself:
// that of a legacy session, or a subscription. The body of a request says what its header
// does, or it is refused.
func stands(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Header.Get("Mcp-Method") == mcp.MethodSubscriptionsListen
}

func (p *process) listenAdmin() error {
	admin, err := p.newAdmin()
	if err != nil {
		return err
	}
	p.admin, err = p.bind("admin", flagAdminAddr, p.cfg.AdminAddr, admin)
	return err
}

// warnHosts warns of an endpoint that everybody can reach under any name: a web page
// can then reach it through a name that it has rebound.
func (p *process) warnHosts(endpoint http.Handler) {
	addr := p.mcp.Addr().(*net.TCPAddr)
	e, ok := endpoint.(interface{ RestrictsHosts() bool })
	if !ok || e.RestrictsHosts() || addr.IP.IsLoopback() {
		return
	}
	slog.Warn("listener.hosts", "addr", addr.String(),
		"problem", "the listener is not a loopback one, and every Host header is taken",
		"set", fmt.Sprintf("--%s or %s, to the names under which clients reach it", flagAllowedHosts, p.env.name(flagAllowedHosts)))
}

// exact returns the pattern that matches a path and nothing below it.
func exact(path string) string {
	if path[len(path)-1] == '/' {
		return path + "{$}"
	}
	return path
}

func (p *process) httpOptions() (opts []server.HTTPOption) {
	if p.cfg.AllowedHosts != nil {
		opts = append(opts, server.WithAllowedHosts(p.cfg.AllowedHosts...))
	}
	if p.cfg.AllowedOrigins != nil {
		opts = append(opts, server.WithAllowedOrigins(p.cfg.AllowedOrigins...))
	}
	if p.cfg.AllowedHeaders != nil {
		opts = append(opts, server.WithAllowedHeaders(p.cfg.AllowedHeaders...))
	}
	return opts
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

func (l *listener) serve(base context.Context, broken chan<- error) {
	if l == nil {
		return
	}
	l.http.BaseContext = func(net.Listener) context.Context { return base }
	l.done = make(chan struct{})
	go func() {
		defer close(l.done)
		if err := l.http.Serve(l.Listener); !errors.Is(err, http.ErrServerClosed) {
			broken <- fmt.Errorf("service: serve on %s: %w", l.Addr(), err)
		}
	}()
}

// close ends the listener and its connections. What is still being received or sent
// has a grace; then its connections are cut.
func (l *listener) close(grace time.Duration) {
	if l == nil {
		return
	}
	if l.done == nil {
		l.Listener.Close()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if l.http.Shutdown(ctx) != nil {
		l.http.Close()
	}
	<-l.done
}

// url returns the address with http:// before it. For a listener on all
// interfaces it is the loopback address, which works on this machine.
func (l *listener) url() string {
	if l == nil {
		return ""
	}
	addr := l.Addr().(*net.TCPAddr)
	host := addr.IP.String()
	if addr.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, fmt.Sprint(addr.Port))
}
