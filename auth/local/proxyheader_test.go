package local_test

import (
	"errors"
	"net/http"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/auth/local"
	"github.com/vitrine-mcp/vitrine/mcp"
)

func TestATrustedProxySaysWhoCalls(t *testing.T) {
	h := &local.ProxyHeader{
		Subject: "x-forwarded-user", Tenant: "X-Tenant", Scopes: "X-Scopes", Issuer: "proxy",
		Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fe80::/10")},
	}
	require.NoError(t, h.Check())
	header := http.Header{"X-Forwarded-User": {" ann "}, "X-Tenant": {"acme"}, "X-Scopes": {"a, b c"}}
	for _, peer := range []string{"10.1.2.3:4711", "[::ffff:10.1.2.3]:4711", "[fe80::1%eth0]:4711"} {
		p, err := h.Authenticate(t.Context(), &auth.Caller{Header: header, PeerAddr: peer, RemoteAddr: "192.0.2.1"})
		require.NoError(t, err)
		require.Equal(t, &auth.Principal{Issuer: "proxy", Subject: "ann", Tenant: "acme", Scopes: []string{"a", "b", "c"}}, p)
	}
}

// The address that the proxy forwards is the caller's word and proves nothing.
func TestNobodyElseSaysWhoCalls(t *testing.T) {
	h := &local.ProxyHeader{Subject: "X-Forwarded-User", Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	header := http.Header{"X-Forwarded-User": {"ann"}}
	for _, peer := range []string{"192.0.2.1:4711", "", "somewhere"} {
		p, err := h.Authenticate(t.Context(), &auth.Caller{Header: header, PeerAddr: peer, RemoteAddr: "10.1.2.3:4711"})
		requireRefused(t, p, err, "proxy_untrusted", true)
		refused, ok := errors.AsType[*mcp.Refusal](err)
		require.True(t, ok)
		require.Equal(t, "header_missing", refused.PublicReason, "strangers do not learn which header it is")
	}
	p, err := h.Authenticate(t.Context(), &auth.Caller{PeerAddr: "10.1.2.3:4711"})
	requireRefused(t, p, err, "header_missing", true)
	for _, values := range [][]string{{"ann", "eve"}, {""}, {" "}} {
		p, err := h.Authenticate(t.Context(), &auth.Caller{Header: http.Header{"X-Forwarded-User": values}, PeerAddr: "10.1.2.3:4711"})
		requireRefused(t, p, err, "header_malformed", false)
	}
}

// A proxy that adds a header to one of the caller's does not say which of them is its own.
func TestHeadersOfTheCallerBesideThoseOfTheProxyAreRefused(t *testing.T) {
	h := &local.ProxyHeader{Subject: "X-User", Tenant: "X-Tenant", Scopes: "X-Scopes", Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	for name, header := range map[string]http.Header{
		"subject": {"X-User": {"eve", "ann"}},
		"tenant":  {"X-User": {"ann"}, "X-Tenant": {"victim", "acme"}},
		"scopes":  {"X-User": {"ann"}, "X-Scopes": {"admin", "read"}},
	} {
		p, err := h.Authenticate(t.Context(), &auth.Caller{Header: header, PeerAddr: "10.1.2.3:4711"})
		requireRefused(t, p, err, "header_malformed", false)
		require.ErrorContains(t, err, name)
	}
}

func TestProxyHeaderNeedsAHeaderAndAProxy(t *testing.T) {
	require.Error(t, (&local.ProxyHeader{Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}).Check())
	require.Error(t, (&local.ProxyHeader{Subject: "X-Forwarded-User"}).Check())
}
