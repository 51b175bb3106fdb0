package oauth

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Config configures a [ResourceServer]. Issuers and Resource are required. The zero value of any
// other field stands for its default.
type Config struct {
	// Issuers are the issuer identifiers of the authorization servers whose tokens are accepted,
	// exactly as their metadata and tokens have them. An http URL is accepted only for a loopback
	// address.
	Issuers []string
	// Resource is the canonical URI of this server, which clients ask tokens for: the public URL of
	// the MCP endpoint, such as https://mcp.example.com/mcp. It has no query and no fragment. An
	// http URL is accepted only for a loopback address. All URLs in metadata and challenges follow
	// from it, never from the header Host.
	Resource string
	// Endpoint is the path of the MCP endpoint at this process, if a proxy in front has changed it.
	// The metadata is then served for that path too. Default: the path of Resource.
	Endpoint string
	// Name is the name of the resource, for people.
	Name string
	// Documentation is the URL of a page about the resource, for developers.
	Documentation string
	// Scopes are all scopes that the resource knows (scopes_supported).
	Scopes []string
	// InitialScopes are the scopes that a client without a token is told to ask for. Default: Scopes.
	InitialScopes []string
	// Optional admits requests without the header Authorization; they have no principal. Tokens that
	// are sent must be valid all the same, and credentials of another scheme are refused.
	Optional bool
	// StdioToken is the access token of the callers over stdio, which send no headers: the protocol
	// takes their credentials from the environment. Without it they have no principal.
	StdioToken string

	// Audiences are the audiences of which a token must have one. Default: Resource.
	Audiences []string
	// Algorithms are the algorithms of signatures that are accepted, all of them asymmetric. Default:
	// ES256, ES384, ES512, EdDSA, RS256, RS384, RS512, PS256, PS384 and PS512.
	Algorithms []string
	// RequireTokenType refuses tokens that do not have the type at+jwt (RFC 9068). Without it an
	// issuer's tokens need that type as soon as one of them had it. Tokens that are no JWTs have no type.
	RequireTokenType bool
	// ClockSkew is how far the clocks of issuers may be from this one. A token is accepted for as
	// much longer than its claim exp says, and Expires of its principal is the end of that time.
	// Default: 10 s; at most 5 minutes. A negative value stands for 0.
	ClockSkew time.Duration
	// ScopeClaims are the claims with scopes: strings with blanks, or lists. Default: scope and scp.
	ScopeClaims []string
	// TenantClaim is the claim with the tenant of a principal. A token without it is refused.
	// Default: none, and principals have no tenant.
	TenantClaim string
	// Introspection asks an issuer about tokens that are no JWTs (RFC 7662). Default: none, and such
	// tokens are refused.
	Introspection *Introspection

	// CacheTTL is for how long a verified token is not verified again, at most until it expires.
	// Default: 60 s, which is the maximum. A negative value turns the cache off.
	CacheTTL time.Duration
	// RefreshInterval is the time between two fetches of an issuer's metadata and keys. Default: 10
	// minutes.
	RefreshInterval time.Duration
	// MinRefreshInterval is the mean time between fetches of an issuer's keys that unknown key ids
	// may cause without finding new keys; three of them may come at once. Default: 5 s.
	MinRefreshInterval time.Duration
	// MaxKeyAge is for how long keys are used while they cannot be fetched again. Default: 24 h.
	MaxKeyAge time.Duration
	// Timeout bounds each fetch of keys, and each introspection. Default: 5 s.
	Timeout time.Duration
	// Limits bound what callers and issuers can make the server hold.
	Limits Limits

	// Client sends the requests to issuers. Redirects are refused, whatever it says. Default: a
	// client of its own, which uses the proxies of the environment.
	Client *http.Client
	// Now returns the time that tokens are compared with. Default: time.Now.
	Now func() time.Time
	// Logger logs what happens to the keys of issuers. Default: nothing is logged.
	Logger *slog.Logger
}

// An Introspection says how to ask about tokens (RFC 7662). The answer must have the claims that a
// JWT must have: sub, aud and exp; iss may be left out. The claims typ and token_use must not say that
// it is an ID token or a refresh token.
type Introspection struct {
	// Issuer is the issuer that is asked, one of Config.Issuers. It may be "" if there is only one.
	Issuer string
	// Endpoint is the URL to ask at. Default: introspection_endpoint of the issuer's metadata.
	Endpoint string
	// ClientID and ClientSecret are this server's credentials at the issuer (client_secret_basic).
	ClientID, ClientSecret string
	// Always asks about JWTs too, so that a revoked token is refused when it leaves the cache. Those that name another one of
	// Config.Issuers are verified with its keys.
	Always bool
}

// Limits are the limits of a [ResourceServer]. The zero value of a field stands for its default.
type Limits struct {
	// MaxTokenBytes (max_token_bytes) bounds a token. Default: 16 KiB.
	MaxTokenBytes int
	// MaxTokenCacheBytes (max_token_cache_bytes) bounds the memory of the verified tokens that are
	// remembered. A token of 1 KiB takes 2 to 4 KiB, because its claims are kept. Default: 16 MiB.
	MaxTokenCacheBytes int
	// MaxAuthFailures (max_auth_failures) bounds the introspections in a minute that one address
	// may cause in vain; a network of IPv6 of 64 bits is one address. A token that was refused is not
	// asked about again for 5 s. One that was good before is asked about all the same. Default: 20.
	MaxAuthFailures int
	// MaxAuthAddresses (max_auth_addresses) bounds the addresses whose failures are remembered.
	// Default: 10,000.
	MaxAuthAddresses int
	// MaxIntrospections (max_introspections) bounds the introspections at one time. Default: 32.
	MaxIntrospections int
	// MaxKeyWaiters (max_key_waiters) bounds the requests that wait for the keys of one issuer.
	// Default: 128.
	MaxKeyWaiters int
	// MaxIssuerBytes (max_issuer_bytes) bounds each document of an issuer. Default: 512 KiB.
	MaxIssuerBytes int
	// MaxIssuerKeys (max_issuer_keys) bounds the keys of an issuer. Default: 100.
	MaxIssuerKeys int
}

const (
	maxClockSkew = 5 * time.Minute
	maxCacheTTL  = 60 * time.Second
)

// algorithms are the algorithms that can be allowed (RFC 7518, RFC 8037). None of them is symmetric.
var algorithms = []string{"ES256", "ES384", "ES512", "EdDSA", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}

func (c Config) withDefaults() Config {
	def := func(d *time.Duration, to time.Duration) { *d = cmp.Or(*d, to) }
	def(&c.ClockSkew, 10*time.Second)
	def(&c.CacheTTL, maxCacheTTL)
	def(&c.RefreshInterval, 10*time.Minute)
	def(&c.MinRefreshInterval, 5*time.Second)
	def(&c.MaxKeyAge, 24*time.Hour)
	def(&c.Timeout, 5*time.Second)
	c.ClockSkew = max(c.ClockSkew, 0)
	c.Limits.setDefaults()
	if len(c.InitialScopes) == 0 {
		c.InitialScopes = c.Scopes
	}
	if len(c.Audiences) == 0 {
		c.Audiences = audiencesOf(c.Resource)
	}
	if len(c.Algorithms) == 0 {
		c.Algorithms = algorithms
	}
	if len(c.ScopeClaims) == 0 {
		c.ScopeClaims = []string{"scope", "scp"}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if i := c.Introspection; i != nil {
		copied := *i
		if len(c.Issuers) == 1 {
			copied.Issuer = cmp.Or(copied.Issuer, c.Issuers[0])
		}
		c.Introspection = &copied
	}
	return c
}

// audiencesOf returns how tokens name a resource: an empty path is the same as / (RFC 3986, section
// 6.2.3), and libraries that parse URLs write the latter.
func audiencesOf(resource string) []string {
	u, err := url.Parse(resource)
	switch {
	case err == nil && u.Path == "":
		return []string{resource, resource + "/"}
	case err == nil && u.Path == "/":
		return []string{resource, strings.TrimSuffix(resource, "/")}
	}
	return []string{resource}
}

// check returns everything that is wrong with a configuration with defaults.
func (c Config) check() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf("oauth: "+format, args...)) }
	if len(c.Issuers) == 0 {
		fault("there is no issuer: set Issuers")
	}
	for i, issuer := range c.Issuers {
		if err := checkURL(issuer); err != nil {
			fault("issuer %.200q: %w", issuer, err)
		}
		if slices.Contains(c.Issuers[:i], issuer) {
			fault("issuer %.200q is listed twice", issuer)
		}
	}
	if c.Resource == "" {
		fault("there is no resource: set Resource to the public URL of the MCP endpoint")
	} else if err := checkURL(c.Resource); err != nil {
		fault("resource %.200q: %w", c.Resource, err)
	}
	if c.Endpoint != "" && !strings.HasPrefix(c.Endpoint, "/") {
		fault("the endpoint %.200q is no path: it must begin with /", c.Endpoint)
	}
	for _, scope := range slices.Concat(c.Scopes, c.InitialScopes) {
		switch {
		case !isScope(scope):
			fault("%.64q cannot be a scope: it is empty, or has a blank, a quote, a backslash or a character that is not ASCII", scope)
		case scope == "offline_access":
			fault("offline_access is between a client and its issuer: it does not belong into the scopes of a resource")
		}
	}
	for _, alg := range c.Algorithms {
		if !slices.Contains(algorithms, alg) {
			fault("the algorithm %.64q is not one of %s", alg, strings.Join(algorithms, ", "))
		}
	}
	if c.ClockSkew > maxClockSkew {
		fault("the clock skew must be at most %v, and is %v", maxClockSkew, c.ClockSkew)
	}
	if c.CacheTTL > maxCacheTTL {
		fault("the time to live in the cache must be at most %v, and is %v", maxCacheTTL, c.CacheTTL)
	}
	if i := c.Introspection; i != nil {
		if !slices.Contains(c.Issuers, i.Issuer) {
			fault("the issuer of the introspection, %.200q, is none of the issuers", i.Issuer)
		}
		if i.Endpoint != "" {
			if err := checkURL(i.Endpoint); err != nil {
				fault("the endpoint of the introspection, %.200q: %w", i.Endpoint, err)
			}
		}
	}
	return errors.Join(append(errs, c.checkPositive())...)
}

func (c Config) checkPositive() error {
	var errs []error
	for name, d := range map[string]time.Duration{
		"RefreshInterval": c.RefreshInterval, "MinRefreshInterval": c.MinRefreshInterval, "MaxKeyAge": c.MaxKeyAge, "Timeout": c.Timeout,
	} {
		if d < 0 {
			errs = append(errs, fmt.Errorf("oauth: %s must not be negative, and is %v", name, d))
		}
	}
	l := c.Limits
	for name, n := range map[string]int{
		limitTokenBytes: l.MaxTokenBytes, limitCacheBytes: l.MaxTokenCacheBytes, limitFailures: l.MaxAuthFailures,
		limitAddresses: l.MaxAuthAddresses, limitIntrospections: l.MaxIntrospections, limitWaiters: l.MaxKeyWaiters,
		limitIssuerBytes: l.MaxIssuerBytes, limitIssuerKeys: l.MaxIssuerKeys,
	} {
		if n < 0 {
			errs = append(errs, fmt.Errorf("oauth: the limit %s must not be negative, and is %d", name, n))
		}
	}
	return errors.Join(errs...)
}

// checkURL returns an error for a URL that must not be fetched or be the name of an issuer or a
// resource: over http without a loopback address, or with user information, a query or a fragment.
func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return err
	case u.Host == "":
		return errors.New("it has no host: write it as https://example.com")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return errors.New("it must have neither user information nor a query nor a fragment")
	}
	return checkSecure(u)
}

// checkSecure returns an error for a URL that is neither https nor of a loopback address.
func checkSecure(u *url.URL) error {
	switch {
	case u.Scheme == "https" && u.Host != "":
		return nil
	case u.Scheme == "http" && isLoopback(u.Hostname()):
		return nil
	case u.Scheme == "http":
		return errors.New("http is accepted only for a loopback address: use https")
	}
	return fmt.Errorf("the scheme %.32q is not https", u.Scheme)
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}
