package service

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/auth/local"
	"github.com/vitrine-mcp/vitrine/auth/oauth"
	"github.com/vitrine-mcp/vitrine/internal/forwarded"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// AuthConfig says how callers are told apart, beside [OAuthConfig]. If there are several ways, the
// first that recognizes the credentials of a caller decides: client certificates, the header of a
// proxy, static tokens, OAuth. They replace the authenticator of the server.
type AuthConfig struct {
	// TokensFile is the path of a file of static tokens; see [local.LoadTokens].
	TokensFile string
	// ClientCert says which name of a client certificate is the subject: uri, dns, email or cn; ""
	// does not look at certificates. It needs [TLSConfig].ClientCA. ClientCertScopes are the scopes
	// of all certificates. See [local.Certificates].
	ClientCert       string
	ClientCertScopes []string
	// ProxyHeader is the header in which a trusted proxy names the subject, and ProxyTenantHeader and
	// ProxyScopesHeader those for the tenant and the scopes; "" for none. See [local.ProxyHeader].
	ProxyHeader, ProxyTenantHeader, ProxyScopesHeader string
	// Optional serves callers without credentials, too, as nobody. What needs scopes is not for them.
	Optional bool
}

// authenticators returns the authenticators of the configuration, in their order.
func (c *Config) authenticators() (all []auth.Authenticator, err error) {
	if c.Auth.ClientCert != "" {
		if c.TLS.ClientCA == "" {
			return nil, errors.New("service: client certificates say who calls, and --" + flagTLSClientCA + " does not say which are good")
		}
		all = append(all, &local.Certificates{Subject: c.Auth.ClientCert, Scopes: c.Auth.ClientCertScopes})
	}
	if c.Auth.ProxyHeader != "" {
		proxies, err := forwarded.Parse(c.TrustedProxies)
		if err != nil {
			return nil, fmt.Errorf("service: %w", err)
		}
		h := &local.ProxyHeader{
			Subject: c.Auth.ProxyHeader, Tenant: c.Auth.ProxyTenantHeader, Scopes: c.Auth.ProxyScopesHeader, Proxies: proxies.Networks(),
		}
		if err := h.Check(); err != nil {
			return nil, fmt.Errorf("service: %w (--%s names the networks)", err, flagTrustedProxies)
		}
		all = append(all, h)
	}
	if c.Auth.TokensFile != "" {
		tokens, err := local.LoadTokens(c.Auth.TokensFile)
		if err != nil {
			return nil, fmt.Errorf("service: %w", err)
		}
		all = append(all, tokens)
	}
	return all, nil
}

// newAuthenticator returns what the configuration says of callers, or nil if it says nothing. rs is the
// resource server of OAuth, or nil, and token the credential of the program on standard input and
// output.
func newAuthenticator(c *Config, rs *oauth.ResourceServer, token string) (auth.Authenticator, error) {
	all, err := c.authenticators()
	if rs != nil {
		all = append(all, rs)
	}
	switch {
	case err != nil:
		return nil, err
	case len(all) == 0 && len(c.AdminSubjects) > 0:
		return nil, errors.New("service: the admin listener is for some subjects, and nothing says who calls")
	case len(all) == 0:
		return nil, nil
	}
	if c.Auth.Optional && rs == nil { // a resource server lets callers without a token in itself
		all = append(all, auth.AuthenticatorFunc(anonymous))
	}
	found := identity{auth.FirstOf(all...), token}
	if rs != nil {
		return oauthIdentity{found, rs}, nil
	}
	return found, nil
}

// anonymous lets callers without credentials in. A caller with credentials that nobody recognizes is
// refused, so that it does not think that they were good.
func anonymous(_ context.Context, caller *auth.Caller) (*auth.Principal, error) {
	if len(http.Header(caller.Header).Values("Authorization")) > 0 {
		return nil, &mcp.Refusal{
			Status: http.StatusUnauthorized, Reason: "token_unknown", By: "tokens", Challenge: `Bearer error="invalid_token"`,
			Err: auth.ErrNotRecognized,
		}
	}
	return nil, nil
}

// identity is the authenticator of the configuration. It gives a caller on standard input and output
// the token of the environment (specification: "Authorization"). Without one that caller is the user
// who has started the process, and has no scopes.
type identity struct {
	auth.Authenticator
	token string
}

// Authenticate implements [auth.Authenticator].
func (i identity) Authenticate(ctx context.Context, caller *auth.Caller) (*auth.Principal, error) {
	if caller.Transport != "stdio" {
		return i.Authenticator.Authenticate(ctx, caller)
	}
	if i.token == "" {
		return nil, nil
	}
	with := *caller
	with.Header = http.Header{"Authorization": {"Bearer " + i.token}}
	return i.Authenticator.Authenticate(ctx, &with)
}

// oauthIdentity is an identity with a resource server, which words challenges ([auth.Challenger]) and
// counts what it does ([auth.Reporter]).
type oauthIdentity struct {
	identity
	resource *oauth.ResourceServer
}

// Challenge implements [auth.Challenger].
func (i oauthIdentity) Challenge(status int, scopes []string) string {
	return i.resource.Challenge(status, scopes)
}

// Stats implements [auth.Reporter].
func (i oauthIdentity) Stats() auth.Stats { return i.resource.Stats() }

// operates returns the caller of the admin listener if it is one of the subjects that may use it, else
// nil.
func (p *process) operates(r *http.Request) *operator {
	if len(p.cfg.AdminSubjects) == 0 || p.access.authenticator == nil {
		return nil
	}
	who, err := p.access.authenticator.Authenticate(r.Context(), &auth.Caller{
		Transport: "http", Header: r.Header, RemoteAddr: r.RemoteAddr, PeerAddr: r.RemoteAddr, TLS: r.TLS,
	})
	if err != nil || who == nil || !slices.Contains(p.cfg.AdminSubjects, who.Subject) {
		return nil
	}
	return &operator{principal: who}
}
