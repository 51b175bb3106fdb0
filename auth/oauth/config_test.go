package oauth_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth/oauth"
)

// Mistakes in the configuration are found at the start, all at once.
func TestMistakesInTheConfiguration(t *testing.T) {
	good := oauth.Config{Issuers: []string{issuerName}, Resource: resource}
	for want, change := range map[string]func(*oauth.Config){
		"there is no issuer": func(c *oauth.Config) { c.Issuers = nil },
		"issuer \"http://login.example.com\": http is accepted": func(c *oauth.Config) { c.Issuers = []string{"http://login.example.com"} },
		"issuer \"login.example.com\": it has no host":          func(c *oauth.Config) { c.Issuers = []string{"login.example.com"} },
		"is listed twice":      func(c *oauth.Config) { c.Issuers = []string{issuerName, issuerName} },
		"there is no resource": func(c *oauth.Config) { c.Resource = "" },
		"neither user information nor a query nor a fragment":   func(c *oauth.Config) { c.Resource = resource + "#x" },
		"resource \"http://mcp.example.com\": http is accepted": func(c *oauth.Config) { c.Resource = "http://mcp.example.com" },
		"the endpoint \"mcp\" is no path":                       func(c *oauth.Config) { c.Endpoint = "mcp" },
		"\"a b\" cannot be a scope":                             func(c *oauth.Config) { c.Scopes = []string{"a b"} },
		"offline_access is between a client and its issuer":     func(c *oauth.Config) { c.Scopes = []string{"offline_access"} },
		"the algorithm \"HS256\" is not one of ES256":           func(c *oauth.Config) { c.Algorithms = []string{"HS256"} },
		"the algorithm \"none\"":                                func(c *oauth.Config) { c.Algorithms = []string{"none"} },
		"the clock skew must be at most 5m0s":                   func(c *oauth.Config) { c.ClockSkew = time.Hour },
		"the time to live in the cache must be at most 1m0s":    func(c *oauth.Config) { c.CacheTTL = time.Hour },
		"is none of the issuers":                                func(c *oauth.Config) { c.Introspection = &oauth.Introspection{Issuer: "https://other.example.com"} },
		"the endpoint of the introspection":                     func(c *oauth.Config) { c.Introspection = &oauth.Introspection{Endpoint: "http://x.example"} },
		"the limit max_token_bytes must not be negative":        func(c *oauth.Config) { c.Limits.MaxTokenBytes = -1 },
		"Timeout must not be negative":                          func(c *oauth.Config) { c.Timeout = -1 },
	} {
		cfg := good
		change(&cfg)
		_, err := oauth.New(cfg)
		require.ErrorContains(t, err, want)
	}
	_, err := oauth.New(oauth.Config{})
	require.ErrorContains(t, err, "there is no issuer")
	require.ErrorContains(t, err, "there is no resource")
	for _, loopback := range []string{"http://localhost:9000", "http://127.0.0.2", "http://[::1]:1/x"} {
		rs, err := oauth.New(oauth.Config{Issuers: []string{loopback}, Resource: loopback})
		require.NoError(t, err)
		require.NoError(t, rs.Close())
	}
}
