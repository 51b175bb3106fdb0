package transport

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// edge checks the Host and Origin headers, against web pages that reach a local
// server through the user's browser (DNS rebinding).
type edge struct {
	hosts   []string
	origins []string
}

// check returns the status and the reason of a refusal, or 0.
func (e *edge) check(r *http.Request) (status int, reason string) {
	loopback := listensOnLoopback(r)
	if loopback && !isLoopbackHost(r.Host) && !allowed(e.hosts, r.Host) ||
		!loopback && len(e.hosts) > 0 && !allowed(e.hosts, r.Host) {
		return http.StatusForbidden, "Host is not allowed"
	}
	origin := r.Header.Get("Origin")
	if origin == "" || named(e.origins, origin) {
		return 0, ""
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return http.StatusForbidden, "Origin is not allowed"
	}
	anyPort := u.Scheme + "://" + strings.TrimSuffix(u.Host, ":"+u.Port())
	if u.Host == r.Host || loopback && isLoopbackHost(u.Host) || named(e.origins, anyPort) {
		return 0, ""
	}
	return http.StatusForbidden, "Origin is not allowed"
}

// GuardLoopback protects a handler as the MCP endpoint protects itself by default:
// on a loopback listener it refuses other Host headers, and everywhere the pages
// of other origins.
func GuardLoopback(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status, reason := new(edge).check(r); status != 0 {
			http.Error(w, reason, status)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// listensOnLoopback reports whether the connection came to a loopback address.
func listensOnLoopback(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	ap, err := netip.ParseAddrPort(addr.String())
	return err == nil && ap.Addr().IsLoopback()
}

func isLoopbackHost(host string) bool {
	name := hostName(host)
	if strings.EqualFold(name, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.IsLoopback()
}

// hostName takes the port and the brackets off a host.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}

// allowed reports whether a list names a host, with its port or without.
func allowed(list []string, host string) bool {
	return named(list, host) || named(list, hostName(host))
}

// named reports whether a list has value, or takes everything.
func named(list []string, value string) bool {
	return slices.ContainsFunc(list, func(entry string) bool {
		return entry == "*" || strings.EqualFold(entry, value)
	})
}
