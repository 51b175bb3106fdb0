package streamable

import (
	"net/http"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Guard protects a handler other than the MCP endpoint, such as one for operators, from
// pages of other origins and from pages that reach it by a rebound name (DNS rebinding).
// Rebinding needs a name of the attacker. So on every listener a Guard allows a Host that is
// an address, as probes and scrapers of an orchestrator send it, "localhost", which no name
// service decides, and no Host, as in HTTP/1.0. It allows other names only if they are in
// Hosts. The MCP endpoint is stricter on a loopback listener, and allows every name on other
// listeners while it has no list.
//
// On a loopback listener a Guard trusts the pages of all local ports.
type Guard struct {
	// Hosts are the allowed names in the Host header. "*" allows everything. An entry without
	// a port matches every port.
	Hosts []string
	// Refuse answers a refused request. The reason is [mcp.RefuseHost] or [mcp.RefuseOrigin].
	// The default answers with a text and status 403.
	Refuse func(w http.ResponseWriter, r *http.Request, reason mcp.RefuseReason)
}

// Wrap returns next behind the guard.
func (g Guard) Wrap(next http.Handler) http.Handler {
	e := &edge{hosts: append([]string{"localhost"}, g.Hosts...)}
	refuse := g.Refuse
	if refuse == nil {
		refuse = func(w http.ResponseWriter, r *http.Request, reason mcp.RefuseReason) {
			http.Error(w, notAllowed(r, reason), http.StatusForbidden)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if reason := e.guard(r); reason != "" {
			refuse(w, r, reason)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// guard returns the reason for which a [Guard] refuses a request, or "".
func (e *edge) guard(r *http.Request) mcp.RefuseReason {
	if r.Host != "" && !isAddress(r.Host) && !allowed(e.hosts, r.Host) {
		return mcp.RefuseHost
	}
	return e.checkOrigins(r, ListensOnLoopback(r))
}
