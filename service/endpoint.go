package service

import (
	"crypto/tls"
	"errors"
	"net/http"
	"strings"

	"github.com/vitrine-mcp/vitrine/internal/streamable"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// newEndpoint makes the handlers of the MCP listener: the endpoint with the program's middleware, and
// the program's routes.
func (p *process) newEndpoint() (*endpoint, error) {
	e := &endpoint{mcp: p.srv.Handler(p.httpOptions()...)}
	wrapped := standing(e.mcp)
	for i := len(p.wraps) - 1; i >= 0; i-- {
		if p.wraps[i] == nil {
			return nil, errors.New("service: WithHTTPMiddleware: a middleware is nil")
		}
		if wrapped = p.wraps[i](wrapped); wrapped == nil {
			return nil, errors.New("service: WithHTTPMiddleware: a middleware has returned no handler")
		}
	}
	mux := http.NewServeMux()
	pattern := exact(p.cfg.Path)
	mux.Handle(pattern, wrapped)
	for _, r := range p.routes {
		taken := func(path string) bool { return path == p.cfg.Path || path == pattern }
		if err := r.addTo(mux, "WithHTTPHandler", taken, p.bounded); err != nil {
			return nil, err
		}
	}
	p.access.addMetadata(mux, p.bounded)
	e.http = p.newHTTP(noteGone(p.leaving(p.streamPlaces(p.fewHeaders(e.mcp, mux)))), func(pair keyPair) *tls.Config { return pair.mcp })
	if p.cfg.H2C {
		e.http.Protocols.SetUnencryptedHTTP2(true)
	}
	return e, nil
}

// fewHeaders hands requests with too many headers to the endpoint, which refuses them, before the
// program's middleware and routes hold them.
func (p *process) fewHeaders(endpoint, next http.Handler) http.Handler {
	most := p.srv.Limits().MaxHeaders
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if streamable.HeaderLines(r.Header) > most {
			endpoint.ServeHTTP(w, r)
			return
		}
		streamable.BoundTrailers(r, most)
		next.ServeHTTP(w, r)
	})
}

// leaving closes each connection after its answer while the process drains. A client that keeps
// its connection would not go through a load balancer that looks at /readyz.
func (p *process) leaving(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// standing closes the connection after a long-lived stream. Such a stream ends when the process
// drains, and its header is sent before that. Without "Connection: close" its client would open
// the next stream on the same connection and be refused.
func standing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 1 && stands(r) {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// stands reports whether a request opens a long-lived stream: that of a legacy session, or a
// subscription. The header is enough, because a request whose body differs is refused.
func stands(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Header.Get("Mcp-Method") == mcp.MethodSubscriptionsListen
}

// exact returns the pattern that matches a path and no path below it.
func exact(path string) string {
	if strings.HasSuffix(path, "/") {
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
	if p.cfg.TrustedProxies != nil {
		opts = append(opts, server.WithTrustedProxies(p.cfg.TrustedProxies...))
	}
	if p.cfg.RefuseLocalOrigins {
		opts = append(opts, server.WithoutLocalOrigins())
	}
	return opts
}

// bounded bounds the handlers of the program on the MCP listener. The HTTP server there has no
// deadlines, because the endpoint sets them. A body must arrive within body_timeout and have at
// most max_frame_bytes. The client must read each piece of an answer within write_timeout.
func (p *process) bounded(next http.Handler) http.Handler {
	limits, reached := p.srv.Limits(), p.limitReached
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		boundBody(w, r, limits.MaxFrameBytes, limits.BodyTimeout)
		out := newBoundedWriter(w, r, limits.WriteTimeout, true, reached)
		next.ServeHTTP(out, r)
		out.finish()
	})
}
