package service

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/streamable"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/service/console"
)

// newAdmin returns the HTTP server of the admin listener. It has its own mux and adds nothing to
// http.DefaultServeMux.
func (p *process) newAdmin() (*http.Server, error) {
	page, err := p.newConsole()
	if err != nil {
		return nil, fmt.Errorf("service: %w", err)
	}
	tel := p.srv.Telemetry()
	mux := http.NewServeMux()
	mux.Handle("GET "+pathMetrics, p.last.of(tel.MetricsHandler()))
	mux.Handle("GET /debug/requests", tel.RequestsHandler())
	mux.Handle("GET /debug/traces", tel.TracesHandler())
	mux.Handle("GET /debug/traces/{id}", tel.TracesHandler())
	mux.Handle("GET /debug/changes", tel.ChangesHandler())
	mux.Handle("GET /debug/events", tel.EventsHandler())
	mux.Handle("GET /debug/replicas", tel.ReplicasHandler())
	mux.Handle("GET /debug/limits", tel.LimitsHandler(p.limitStates))
	mux.Handle("GET "+pathDebugLive, tel.LiveHandler())
	mux.HandleFunc("GET "+pathLive, func(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET "+pathReady, p.ready)
	mux.HandleFunc("GET "+console.Prefix, page.ServeAsset)
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Accept")
		if strings.Contains(r.Header.Get("Accept"), "text/html") {
			page.ServeIndex(w, r)
			return
		}
		p.adminIndex(w, r)
	})
	mux.HandleFunc("POST "+pathActions+"{action}", p.act)
	mux.HandleFunc("GET "+pathActions+"{$}", p.actionIndex)
	newProfiler(p.srv.Limits(), p.limitReached, p.profileIsOff).addTo(mux)
	p.addFlight(mux)
	own := map[string]bool{}
	for _, r := range p.pages {
		if err := r.addTo(mux, "WithAdminHandler", adminPath, http.NewCrossOriginProtection().Handler); err != nil {
			return nil, err
		}
		own[r.pattern] = true
	}
	takesBody := func(r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, pathActions) {
			return true
		}
		_, pattern := mux.Handler(r)
		return own[pattern]
	}
	guard := streamable.Guard{Hosts: p.cfg.AdminAllowedHosts, Refuse: p.refuseAdmin}
	limits := p.srv.Limits()
	bounded := &adminBounds{next: guard.Wrap(ownPages(p.authorized(mux))), takesBody: takesBody, limits: limits, reached: p.limitReached}
	admin := p.newHTTP(bounded, func(pair keyPair) *tls.Config { return pair.admin })
	admin.WriteTimeout = limits.WriteTimeout // for the answers of net/http itself; adminBounds sets the deadlines of all others
	return admin, nil
}

// ownLinks returns the paths of the program's pages that a link can lead to.
func (p *process) ownLinks() (links []string) {
	for _, r := range p.pages {
		if method, path := r.split(); (method == "" || method == http.MethodGet) && !strings.ContainsAny(path, "{}") {
			links = append(links, path)
		}
	}
	return links
}

// refuseAdmin answers a request that the guard refuses. A host that is not listed comes from an
// attack or from a forgotten scraper. The log record helps with the latter.
func (p *process) refuseAdmin(w http.ResponseWriter, r *http.Request, reason mcp.RefuseReason) {
	p.refusedAction(r, http.StatusForbidden, errors.New("the "+string(reason)+" is not allowed"))
	if reason != mcp.RefuseHost {
		plain(w, http.StatusForbidden, "Origin is not allowed")
		return
	}
	if ok, silenced := p.refusals.Allow("admin.refused", "", time.Now()); ok {
		slog.Warn("admin.refused", "host", logline.Printable(r.Host, maxHostLogged), "remote", r.RemoteAddr, "silenced", silenced,
			"problem", "a name in the Host header of the admin listener must be listed",
			"set", fmt.Sprintf("--%s or %s", flagAdminAllowedHosts, p.env.name(flagAdminAllowedHosts)))
	}
	plain(w, http.StatusForbidden, "Host is not allowed: addresses are, localhost is, and the names of --"+flagAdminAllowedHosts)
}

// maxHostLogged is the maximum length of a host name with a port.
const maxHostLogged = 260

// newConsole makes the page for browsers. Other clients get the index as text.
func (p *process) newConsole() (*console.Console, error) {
	info := p.srv.Info()
	return console.New(console.Page{
		Name: info.Name, Version: info.Version, Build: ReadBuild().String(), JaegerURL: strings.TrimRight(p.cfg.JaegerURL, "/"),
		PrometheusURL: strings.TrimRight(p.cfg.PrometheusURL, "/"), Links: p.ownLinks(),
	})
}

// ownPages refuses requests of pages of other sites. Such a page cannot read the answer, but a
// profile costs CPU and a live stream uses up a place. Links from other sites still work.
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

// ready serves /readyz: whether requests should be sent to this process, and if not, why.
func (p *process) ready(w http.ResponseWriter, r *http.Request) {
	switch err := p.srv.Ready(r.Context()); {
	case err == nil:
		plain(w, http.StatusOK, "ready")
	case errors.Is(err, server.ErrDraining):
		plain(w, http.StatusServiceUnavailable, "not ready: shutting down")
	default:
		plain(w, http.StatusServiceUnavailable, "not ready:\n"+err.Error())
	}
}

func (p *process) adminIndex(w http.ResponseWriter, _ *http.Request) {
	info := p.srv.Info()
	lines := []string{
		fmt.Sprintf("%s %s, build %s", info.Name, info.Version, ReadBuild()),
		"",
		"/metrics         metrics for Prometheus (OpenMetrics, with exemplars)",
		"/livez           200 while the process lives",
		"/readyz          200 if requests should be sent here, else 503 and why",
		"/debug/requests  requests in flight, sessions and totals, as JSON",
		"/debug/live      the same, as a stream of events",
		"/debug/traces    the latest requests that have ended, as JSON",
		"/debug/changes   what has changed in the last two hours, as JSON",
		"/debug/events    what is kept to resume streams, and the largest holders, as JSON",
		"/debug/limits    all limits: their values, flags, present use, and how often they were reached, as JSON",
		"/debug/replicas  what each replica says of itself, as JSON",
		"/debug/goroutines goroutines by tool and stack, with what they wait for, as JSON",
		"/debug/pprof/    profiles, for go tool pprof",
		"/debug/actions/  what operators may do, with POST",
		"/debug/flight    snapshots of the flight recorder, for go tool trace; POST takes one",
	}
	if len(p.pages) > 0 {
		lines = append(lines, "", "of this program:")
	}
	for _, r := range p.pages {
		lines = append(lines, r.pattern)
	}
	plain(w, http.StatusOK, strings.Join(lines, "\n"))
}
