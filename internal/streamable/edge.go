package streamable

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// An edge checks the Host and Origin headers. It protects a local server from web pages that
// reach it through the user's browser (DNS rebinding).
type edge struct {
	hosts   []string
	origins []string
	// refuseLocal is true if pages of other local ports need to be listed, too.
	refuseLocal bool
}

// check returns the reason for refusing a request with status 403, or "".
func (e *edge) check(r *http.Request) mcp.RefuseReason {
	if otherHost(r) != "" {
		return mcp.RefuseHost
	}
	loopback := ListensOnLoopback(r)
	if loopback && !isLoopbackHost(r.Host) && !allowed(e.hosts, r.Host) ||
		!loopback && len(e.hosts) > 0 && !allowed(e.hosts, r.Host) {
		return mcp.RefuseHost
	}
	return e.checkOrigins(r, loopback)
}

// otherHost returns the host of the path, if the path of a request over HTTP/2 is an absolute address
// and names another host than the request. In HTTP/1.1 net/http makes the two the same.
func otherHost(r *http.Request) string {
	if r.ProtoMajor < 2 || r.URL.Host == r.Host {
		return ""
	}
	return r.URL.Host
}

// checkOrigins returns the reason of a refusal if a page has sent r that may not.
func (e *edge) checkOrigins(r *http.Request, loopback bool) mcp.RefuseReason {
	for _, origin := range r.Header["Origin"] {
		if origin != "" && !e.trusts(origin, r.Host, loopback) {
			return mcp.RefuseOrigin
		}
	}
	return ""
}

// trusts reports whether pages of an origin may use the endpoint. It is not enough that Host
// and Origin agree: they also do for a name that was rebound.
func (e *edge) trusts(origin, host string, loopback bool) bool {
	if named(e.origins, origin) {
		return true
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return false
	}
	anyPort := u.Scheme + "://" + strings.TrimSuffix(u.Host, ":"+u.Port())
	if named(e.origins, anyPort) {
		return true
	}
	if local := loopback && isLoopbackHost(u.Host); local {
		return !e.refuseLocal || u.Host == host
	}
	return u.Host == host && (isAddress(host) || allowed(e.hosts, host))
}

// forbidden words the reason of check, with the setting that changes it.
func forbidden(r *http.Request, reason mcp.RefuseReason) string {
	setting := " (set --allowed-hosts, or server.WithAllowedHosts)"
	if reason == mcp.RefuseOrigin {
		setting = " (set --allowed-origins, or server.WithAllowedOrigins)"
	}
	return notAllowed(r, reason) + setting
}

// notAllowed words a reason with the value that is not allowed.
func notAllowed(r *http.Request, reason mcp.RefuseReason) string {
	header, value := "Host", cmp.Or(otherHost(r), r.Host)
	if reason == mcp.RefuseOrigin {
		header, value = "Origin", strings.Join(r.Header["Origin"], ", ")
	}
	return fmt.Sprintf("%s %q is not allowed", header, logline.Printable(value, maxShown))
}

// ListensOnLoopback reports whether the connection of a request came to a loopback address, so that
// its sender is on this machine.
func ListensOnLoopback(r *http.Request) bool {
	switch addr := r.Context().Value(http.LocalAddrContextKey).(type) {
	case *net.TCPAddr: // nearly always
		return addr.IP.IsLoopback()
	case net.Addr:
		ap, err := netip.ParseAddrPort(addr.String())
		return err == nil && ap.Addr().IsLoopback()
	}
	return false
}

func isLoopbackHost(host string) bool {
	name := hostName(host)
	if strings.EqualFold(name, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.IsLoopback()
}

// isAddress reports whether a host is an IP address, which no name service can rebind.
func isAddress(host string) bool {
	_, err := netip.ParseAddr(hostName(host))
	return err == nil
}

// hostName removes the port and the brackets from a host.
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

// maxShown is the number of bytes of a client's header that logs and errors show: enough for
// a host name with its port.
const maxShown = 260
