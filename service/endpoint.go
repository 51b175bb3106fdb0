package service

import (
	"errors"
	"net/http"
	"strings"

	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
)

// newEndpoint puts the program's middleware around the endpoint, and its routes beside it.
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
	e.http = p.newHTTP(p.leaving(mux))
	if p.cfg.H2C {
		e.http.Protocols = new(http.Protocols)
		e.http.Protocols.SetHTTP1(true)
		e.http.Protocols.SetUnencryptedHTTP2(true)
	}
	return e, nil
}

// leaving asks clients to come back over another connection as soon as the process is
// about to end. A connection that a client keeps bypasses whatever has noticed that by
// looking at /readyz.
func (p *process) leaving(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// standing ends the connection of a stream that stands. Such a stream is not over before
// the process is about to end, and has to say so when it begins: else its client opens the
// next one over the same connection, and is refused.
func standing(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 1 && stands(r) {
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

// exact returns the pattern that matches a path and nothing below it.
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
	return opts
}

// bounded is for handlers of the program's own on the MCP listener, whose HTTP server has no
// deadlines: the endpoint sets its own. A body has body_timeout to arrive and may have
// max_frame_bytes; each piece of an answer has write_timeout to be read.
func (p *process) bounded(next http.Handler) http.Handler {
	limits, reached := p.srv.Limits(), p.limitReached
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		boundBody(w, r, limits.MaxFrameBytes, limits.BodyTimeout)
		out := newBoundedWriter(w, limits.WriteTimeout, true, reached)
		next.ServeHTTP(out, r)
		out.finish()
	})
}
