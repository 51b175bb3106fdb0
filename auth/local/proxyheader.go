package local

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// ProxyHeader is an [auth.Authenticator] for servers behind a proxy that authenticates and passes the
// name of the caller in a header, such as X-Forwarded-User. It takes its headers from trusted proxies
// only: any other peer could write into them whatever it likes. The proxy must remove all of them from
// what callers send, also those that it does not set itself. A header that is there twice is refused,
// because one of the two may be the caller's. Immutable and safe for concurrent use.
type ProxyHeader struct {
	// Subject is the name of the header with the subject. It must be set.
	Subject string
	// Tenant and Scopes are the names of headers with the tenant, and with the scopes, separated by
	// spaces or commas; "" for none.
	Tenant, Scopes string
	// Issuer is that of all principals; may be "".
	Issuer string
	// Proxies are the networks of the trusted proxies. It must not be empty.
	Proxies []netip.Prefix
}

// byProxyHeader says who refuses.
const byProxyHeader = "proxy_header"

// Check returns an error if a field that must be set is not.
func (h *ProxyHeader) Check() error {
	switch {
	case h.Subject == "":
		return errors.New("auth: the header with the subject has no name")
	case len(h.Proxies) == 0:
		return errors.New("auth: a header says who calls, and there is no trusted proxy that could set it")
	}
	return nil
}

// Authenticate implements [auth.Authenticator]. A caller that does not come through a trusted proxy,
// or without the header, matches [auth.ErrNotRecognized].
func (h *ProxyHeader) Authenticate(_ context.Context, caller *auth.Caller) (*auth.Principal, error) {
	header := http.Header(caller.Header)
	if len(header.Values(h.Subject)) == 0 {
		return nil, refuseHeader("header_missing", auth.ErrNotRecognized)
	}
	if !h.trusts(caller.PeerAddr) {
		return nil, refuseHeader("proxy_untrusted", auth.ErrNotRecognized)
	}
	p, scopes := &auth.Principal{Issuer: h.Issuer}, ""
	for _, one := range []struct {
		what, name string
		value      *string
	}{{"subject", h.Subject, &p.Subject}, {"tenant", h.Tenant, &p.Tenant}, {"scopes", h.Scopes, &scopes}} {
		if one.name == "" {
			continue
		}
		if len(header.Values(one.name)) > 1 {
			return nil, refuseHeader("header_malformed", fmt.Errorf("auth: the header with the %s is there more than once", one.what))
		}
		*one.value = strings.TrimSpace(header.Get(one.name))
	}
	if p.Subject == "" {
		return nil, refuseHeader("header_malformed", errors.New("auth: the header with the subject is empty"))
	}
	if scopes != "" {
		p.Scopes = strings.FieldsFunc(scopes, func(r rune) bool { return r == ' ' || r == ',' })
	}
	return p, nil
}

func (h *ProxyHeader) trusts(peer string) bool {
	from, err := netip.ParseAddrPort(peer)
	if err != nil {
		return false
	}
	addr := from.Addr().Unmap().WithZone("")
	return slices.ContainsFunc(h.Proxies, func(n netip.Prefix) bool { return n.Contains(addr) })
}

// refuseHeader returns a refusal. A peer that is no proxy does not learn that it has found the header.
func refuseHeader(reason string, err error) error {
	r := &mcp.Refusal{Status: http.StatusUnauthorized, Reason: reason, By: byProxyHeader, Err: err}
	if reason == "proxy_untrusted" {
		r.PublicReason = "header_missing"
	}
	return r
}
