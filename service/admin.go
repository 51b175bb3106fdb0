package service

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/vitrine-mcp/vitrine/service/console"
	"github.com/vitrine-mcp/vitrine/transport"
)

// adminHandler returns what the admin listener serves. It has a mux of its own:
// nothing of it ever reaches http.DefaultServeMux.
func (p *process) adminHandler() (http.Handler, error) {
	page, err := p.newConsole()
	if err != nil {
		return nil, fmt.Errorf("service: %w", err)
	}
	tel := p.srv.Telemetry()
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", tel.MetricsHandler())
	mux.Handle("GET /debug/requests", tel.RequestsHandler())
	mux.Handle("GET /debug/traces", tel.TracesHandler())
	mux.Handle("GET /debug/traces/{id}", tel.TracesHandler())
	mux.Handle("GET /debug/live", tel.LiveHandler())
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", p.ready)
	mux.HandleFunc("GET "+console.Prefix, page.ServeAsset)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Accept")
		if strings.Contains(r.Header.Get("Accept"), "text/html") {
			page.ServeIndex(w, r)
			return
		}
		p.adminIndex(w, r)
	})
	addProfiles(mux)
	p.addFlight(mux)
	return transport.GuardLoopback(ownPages(mux)), nil
}

// newConsole makes the page for people; programs get the index as text.
func (p *process) newConsole() (*console.Console, error) {
	info := p.srv.Info()
	return console.New(console.Page{
		Name: info.Name, Version: info.Version, Build: ReadBuild().String(), JaegerURL: strings.TrimRight(p.cfg.JaegerURL, "/"),
	})
}

// ownPages refuses what pages of other sites ask for: a profile costs CPU, and a live
// stream a place, although its page could not read either. A link to here works.
func ownPages(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("Sec-Fetch-Site") {
		case "cross-site", "same-site":
			if r.Method != http.MethodGet || r.Header.Get("Sec-Fetch-Dest") != "document" {
				plain(w, http.StatusForbidden, "pages of other sites may not use this listener")
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// ready answers whether requests should be sent here, and if not, why.
func (p *process) ready(w http.ResponseWriter, r *http.Request) {
	if p.draining.Load() {
		plain(w, http.StatusServiceUnavailable, "not ready: shutting down")
		return
	}
	if err := p.srv.Ready(r.Context()); err != nil {
		plain(w, http.StatusServiceUnavailable, "not ready:\n"+err.Error())
		return
	}
	plain(w, http.StatusOK, "ready")
}

func (p *process) adminIndex(w http.ResponseWriter, _ *http.Request) {
	info := p.srv.Info()
	plain(w, http.StatusOK, strings.Join([]string{
		fmt.Sprintf("%s %s, build %s", info.Name, info.Version, ReadBuild()),
		"",
		"/metrics         metrics for Prometheus (OpenMetrics, with exemplars)",
		"/livez           200 while the process lives",
		"/readyz          200 if requests should be sent here, else 503 and why",
		"/debug/requests  requests in flight, sessions and totals, as JSON",
		"/debug/traces    the latest requests that have ended, as JSON",
		"/debug/live      the same, as a stream of events",
		"/debug/pprof/    profiles, for go tool pprof",
		"/debug/flight    snapshots of the flight recorder, for go tool trace; POST takes one",
	}, "\n"))
}

func plain(w http.ResponseWriter, status int, text string) {
	uncached(w, "text/plain; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprintln(w, text)
}

// uncached sets the headers of an answer that is only true now.
func uncached(w http.ResponseWriter, contentType string) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
}
