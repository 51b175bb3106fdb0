package streamable

import (
	"net/http"
	"strings"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Guard protects a handler beside the MCP endpoint, such as one for operators, from
// the pages of other origins, and from those that reach it by a name which they have
// rebound (DNS rebinding). That takes a name of the attacker's own. So on every listener
// a Guard takes a Host that is an address, which probes and scrapers of an orchestrator
// use, "localhost", which no name service has a say in, and none at all, as of HTTP/1.0;
// other names only if they are in Hosts. The MCP endpoint is stricter on a loopback
// listener, and takes every name on others while it has no list.
//
// On a loopback listener the pages of all local ports are trusted.
type Guard struct {
	// Hosts are the names that the Host header may say. "*" allows everything. An entry
	// without a port matches every port.
	Hosts []string
	// Refuse answers what is refused, for the reason [mcp.RefuseHost] or
	// [mcp.RefuseOrigin]. The default is a text with status 403.
	Refuse func(w http.ResponseWriter, r *http.Request, reason mcp.RefuseReason)
}

// Wrap returns next behind the guard.
func (g Guard) Wrap(next http.Handler) http.Handler {
	e := &edge{hosts: append([]string{"localhost"}, g.Hosts...)}
	refuse := g.Refuse
	if refuse == nil {
		refuse = func(w http.ResponseWriter, r *http.Request, reason mcp.RefuseReason) {
			text := notAllowed("Host", r.Host)
			if reason == mcp.RefuseOrigin {
				text = notAllowed("Origin", strings.Join(r.Header["Origin"], ", "))
			}
			http.Error(w, text, http.StatusForbidden)
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

// guard returns the reason of a refusal by a [Guard], or "".
func (e *edge) guard(r *http.Request) mcp.RefuseReason {
	if r.Host != "" && !isAddress(r.Host) && !allowed(e.hosts, r.Host) {
		return mcp.RefuseHost
	}
	return e.checkOrigins(r, listensOnLoopback(r))
}
