package service

import (
	"context"
	"errors"
	"fmt"
	"net/http"

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
	// ProxyScopesHeader those for the tenant and the scopes; "" for none. See [local.ProxyHeader]. Beside a
	// file of tokens the issuer of these principals is "proxy", so that they are others than those of the file.
	ProxyHeader, ProxyTenantHeader, ProxyScopesHeader string
	// Optional serves callers without credentials, too, as nobody. What needs scopes is not for them.
	Optional bool
}

// issuerProxy is the issuer of the principals that a proxy names, beside a file of tokens.
const issuerProxy = "proxy"

// authenticators returns the authenticators of the configuration, in their order. rs is the resource server of OAuth, or nil.
func (c *Config) authenticators(rs *oauth.ResourceServer) (all []identitySource, err error) {
	if c.Auth.ClientCert != "" {
		if c.TLS.ClientCA == "" {
			return nil, errors.New("service: client certificates say who calls, and --" + flagTLSClientCA + " does not say which are good")
		}
		certificates := &local.Certificates{Subject: c.Auth.ClientCert, Scopes: c.Auth.ClientCertScopes}
		all = append(all, identitySource{Authenticator: certificates, names: []string{sourceCertificates}})
	}
	if c.Auth.ProxyHeader != "" {
		proxies, err := forwarded.Parse(c.TrustedProxies)
		if err != nil {
			return nil, fmt.Errorf("service: %w", err)
		}
		h := &local.ProxyHeader{
			Subject: c.Auth.ProxyHeader, Tenant: c.Auth.ProxyTenantHeader, Scopes: c.Auth.ProxyScopesHeader, Proxies: proxies.Networks(),
		}
		if c.Auth.TokensFile != "" {
			h.Issuer = issuerProxy // a token of the file may have the same subject
		}
		if err := h.Check(); err != nil {
			return nil, fmt.Errorf("service: %w (--%s names the networks)", err, flagTrustedProxies)
		}
		all = append(all, identitySource{Authenticator: h})
	}
	if c.Auth.TokensFile != "" {
		tokens, err := local.LoadTokens(c.Auth.TokensFile)
		if err != nil {
			return nil, fmt.Errorf("service: %w", err)
		}
		all = append(all, identitySource{Authenticator: tokens, names: []string{sourceTokens}})
	}
	if rs != nil {
		all = append(all, identitySource{Authenticator: rs, names: c.OAuth.Issuers, issuers: true})
	}
	return all, nil
}

// newAuthenticator returns what tells callers apart, given the authenticators of the configuration, or nil if there are none. rs
// is the resource server of OAuth, or nil, and token the credential of the program on standard input and output.
func newAuthenticator(c *Config, sources []identitySource, rs *oauth.ResourceServer, token string) auth.Authenticator {
	if len(sources) == 0 {
		return nil
	}
	var all []auth.Authenticator
	for _, s := range sources {
		all = append(all, s.Authenticator)
	}
	if c.Auth.Optional && rs == nil { // a resource server lets callers without a token in itself
		all = append(all, auth.AuthenticatorFunc(anonymous))
	}
	found := identity{auth.FirstOf(all...), token}
	if rs != nil {
		return oauthIdentity{found, rs}
	}
	return found
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

// Unwrap returns the authenticators of the configuration, as [auth.FirstOf] does.
func (i identity) Unwrap() []auth.Authenticator { return []auth.Authenticator{i.Authenticator} }

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
