package service

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/vitrine-mcp/vitrine/auth/oauth"
)

// OAuthConfig makes the process an OAuth resource server; see [oauth.Config]. It is on if there is an
// issuer. The metadata of the resource (RFC 9728) is served beside the MCP endpoint.
type OAuthConfig struct {
	// Issuers are the authorization servers whose tokens are accepted, and Resource is the public URL
	// of the MCP endpoint.
	Issuers  []string
	Resource string
	// Scopes are all scopes that the server knows.
	Scopes []string
	// Audiences, if not empty, are accepted instead of Resource.
	Audiences []string
	// TenantClaim is the claim with the tenant of a principal.
	TenantClaim string
	// IntrospectionClient is the name of this server at the issuer, with which it asks about tokens
	// that are no JWTs, and IntrospectionSecretFile the path of its secret. "" asks about none.
	IntrospectionClient, IntrospectionSecretFile string
	// IntrospectionAlways asks about JWTs, too.
	IntrospectionAlways bool
}

// newResourceServer returns the resource server of the configuration, or nil if there is no issuer.
func newResourceServer(c *Config, token string) (*oauth.ResourceServer, error) {
	if len(c.OAuth.Issuers) == 0 {
		if c.OAuth.Resource != "" {
			return nil, errors.New("service: OAuth needs an issuer: set --" + flagOAuthIssuer)
		}
		return nil, nil
	}
	if c.OAuth.Resource == "" {
		return nil, errors.New("service: OAuth needs the public URL of the MCP endpoint, which tokens are for: set --" + flagOAuthResource)
	}
	cfg := oauth.Config{
		Issuers: c.OAuth.Issuers, Resource: c.OAuth.Resource, Endpoint: c.Path, Scopes: c.OAuth.Scopes, Audiences: c.OAuth.Audiences,
		TenantClaim: c.OAuth.TenantClaim, Optional: c.Auth.Optional, StdioToken: token, Logger: slog.Default(),
	}
	if c.OAuth.IntrospectionClient != "" {
		secret, err := os.ReadFile(c.OAuth.IntrospectionSecretFile)
		if err != nil {
			return nil, fmt.Errorf("service: the secret for introspection: %w", err)
		}
		cfg.Introspection = &oauth.Introspection{
			ClientID: c.OAuth.IntrospectionClient, ClientSecret: strings.TrimSpace(string(secret)), Always: c.OAuth.IntrospectionAlways,
		}
	}
	rs, err := oauth.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("service: %w", err)
	}
	return rs, nil
}
