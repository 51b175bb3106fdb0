package local

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// ProxyHeader is an [auth.Authenticator] for servers behind a proxy that authenticates and passes the
// name of the caller in a header, such as X-Forwarded-User. It takes the header from trusted proxies
// only: any other peer could write into it whatever it likes. The proxy must remove the header from
// what callers send. Immutable and safe for concurrent use.
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
	subjects := header.Values(h.Subject)
	switch {
	case len(subjects) == 0:
		return nil, refuseHeader("header_missing", auth.ErrNotRecognized)
	case !h.trusts(caller.PeerAddr):
		return nil, refuseHeader("proxy_untrusted", auth.ErrNotRecognized)
	case len(subjects) > 1 || strings.TrimSpace(subjects[0]) == "":
		return nil, refuseHeader("header_malformed", errors.New("auth: the header with the subject must be there once and not be empty"))
	}
	p := &auth.Principal{Issuer: h.Issuer, Subject: strings.TrimSpace(subjects[0])}
	if h.Tenant != "" {
		p.Tenant = strings.TrimSpace(header.Get(h.Tenant))
	}
	if h.Scopes != "" {
		p.Scopes = strings.FieldsFunc(strings.Join(header.Values(h.Scopes), " "), func(r rune) bool { return r == ' ' || r == ',' })
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
