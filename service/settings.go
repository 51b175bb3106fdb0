package service

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
)

// A setting is one row of the table of flags, environment variables and the help text. In the usage
// `quotes` mark the placeholder of the value.
type setting struct {
	group string
	name  string
	usage string
	value func(*Config) flag.Value
}

// The groups of the help text.
const (
	groupListeners = "Listeners"
	groupTLS       = "TLS"
	groupAuth      = "Callers"
	groupRights    = "Rights and audit"
	groupHTTP      = "HTTP"
	groupRates     = "Rate limits"
	groupShutdown  = "Shutdown"
	groupSecrets   = "Secrets"
	groupFlight    = "Flight recorder"
	groupConsole   = "Console"
	groupLogs      = "Logs"
	groupLimits    = "Limits"
)

func groups() []string {
	return []string{groupListeners, groupTLS, groupAuth, groupRights, groupHTTP, groupRates, groupShutdown, groupSecrets, groupConsole, groupFlight, groupLogs, groupLimits}
}

// settings returns the table. Usage texts name variables with the prefix of env.
func settings(env envPrefix) []setting { return append(ownSettings(env), limitSettings()...) }

// limitSettings returns a setting for each limit of the server.
func limitSettings() (all []setting) {
	for _, b := range limits.All() {
		unit := cmp.Or(b.Unit, "time")
		all = append(all, setting{groupLimits, limitFlag(b), b.Usage + " (`" + unit + "`)",
			func(c *Config) flag.Value {
				limits := (*limits.Limits)(&c.Limits)
				if field := b.Int(limits); field != nil {
					return limitValue(field, b.Default.(int), strconv.Atoi, strconv.Itoa)
				}
				return limitValue(b.Duration(limits), b.Default.(time.Duration), time.ParseDuration, time.Duration.String)
			}})
	}
	return all
}

// limitFlag returns the name of the flag of a limit.
func limitFlag(b limits.Bound) string { return strings.ReplaceAll(b.Name, "_", "-") }

func ownSettings(env envPrefix) []setting {
	return []setting{
		{groupListeners, flagAddr, "`host:port` of the MCP endpoint; port 0 takes a free one",
			func(c *Config) flag.Value { return textValue(&c.Addr, hostPort) }},
		{groupListeners, "path", "`path` of the MCP endpoint",
			func(c *Config) flag.Value { return textValue(&c.Path, urlPath) }},
		{groupListeners, flagAdminAddr, "`host:port` of the console, /metrics, /livez, /readyz and /debug, or off",
			func(c *Config) flag.Value { return textValue(&c.AdminAddr, hostPortOrOff) }},
		{groupListeners, flagAdminAllowedHosts, "`hosts` that the Host header may name on the admin listener, beside addresses and localhost, with commas; * allows all",
			func(c *Config) flag.Value { return listValue(&c.AdminAllowedHosts, anything) }},
		{groupListeners, flagAdminToken, "`path` of the tokens that all pages of the admin listener but health checks and /metrics need, one on a line; without it these pages are for this machine only",
			func(c *Config) flag.Value { return textValue(&c.AdminTokenFile, anything) }},
		{groupListeners, flagAdminActions, "let operators end requests, sessions and streams, drain, set the level of the log and turn on profiles with POST /debug/actions/; needs --" + flagAdminToken + " or --" + flagAdminSubjects,
			func(c *Config) flag.Value { return boolValue(&c.AdminActions) }},
		{groupListeners, flagMutexProfile, "`number` of events of contended locks of which /debug/pprof/mutex has one; 0 is off",
			func(c *Config) flag.Value { return countValue(&c.MutexProfileFraction) }},
		{groupListeners, flagBlockProfile, "`number` of nanoseconds of waiting for each event in /debug/pprof/block; 0 is off",
			func(c *Config) flag.Value { return countValue(&c.BlockProfileRate) }},
		{groupListeners, flagAdminSubjects, "`subjects` of callers that may use all pages of the admin listener with their credentials, with commas. Each is a subject, or source#subject with an issuer of OAuth, certificates or tokens as its source; with several sources it must name one. The header of a proxy does not count there",
			func(c *Config) flag.Value { return listValue(&c.AdminSubjects, anything) }},
		{groupListeners, "eras", "`eras` of the protocol that are served, with commas: modern (2026-07-28 and later), legacy (2024-11-05 to 2025-11-25); both without it",
			func(c *Config) flag.Value { return erasValue(&c.Eras) }},
		{groupListeners, flagStdio, "serve one client on standard input and output instead of HTTP; the admin listener then opens only if --admin-addr is given",
			func(c *Config) flag.Value { return boolValue(&c.Stdio) }},

		{groupTLS, flagTLSCert, "`path` of the certificate of both listeners with its chain, in PEM; read again when it changes. On a loopback address the admin listener takes requests without TLS, too",
			func(c *Config) flag.Value { return textValue(&c.TLS.Cert, anything) }},
		{groupTLS, flagTLSKey, "`path` of the certificate's key, in PEM",
			func(c *Config) flag.Value { return textValue(&c.TLS.Key, anything) }},
		{groupTLS, flagTLSClientCA, "`path` of the authorities whose client certificates are good, in PEM; the MCP listener then requires one",
			func(c *Config) flag.Value { return textValue(&c.TLS.ClientCA, anything) }},
		{groupTLS, flagTLSClientOptional, "serve clients without a certificate, too",
			func(c *Config) flag.Value { return boolValue(&c.TLS.ClientOptional) }},

		{groupAuth, "auth-tokens-file", "`path` of static tokens: on each line the SHA-256 digest of one, its subject, and words such as scopes=files:read,files:write. " + env.name(stdioTokenName) + " has the token of a process with --stdio",
			func(c *Config) flag.Value { return textValue(&c.Auth.TokensFile, anything) }},
		{groupAuth, flagClientCert, "which `name` of a client certificate is the subject: uri, dns, email or cn",
			func(c *Config) flag.Value { return textValue(&c.Auth.ClientCert, certificateName) }},
		{groupAuth, flagClientCertScopes, "`scopes` of callers with a client certificate, with commas",
			func(c *Config) flag.Value { return listValue(&c.Auth.ClientCertScopes, anything) }},
		{groupAuth, flagProxyHeader, "`header` in which a trusted proxy (--" + flagTrustedProxies + ") names the subject, such as X-Forwarded-User",
			func(c *Config) flag.Value { return textValue(&c.Auth.ProxyHeader, headerNameOrNone) }},
		{groupAuth, flagProxyTenant, "`header` in which it names the tenant",
			func(c *Config) flag.Value { return textValue(&c.Auth.ProxyTenantHeader, headerNameOrNone) }},
		{groupAuth, flagProxyScopes, "`header` in which it names the scopes",
			func(c *Config) flag.Value { return textValue(&c.Auth.ProxyScopesHeader, headerNameOrNone) }},
		{groupAuth, "auth-optional", "serve callers without credentials, too; what needs scopes is not for them",
			func(c *Config) flag.Value { return boolValue(&c.Auth.Optional) }},

		{groupAuth, flagOAuthIssuer, "`issuers` whose access tokens are accepted, as their metadata name them, with commas; the server then is an OAuth resource server",
			func(c *Config) flag.Value { return listValue(&c.OAuth.Issuers, anything) }},
		{groupAuth, flagOAuthResource, "`URL` of the MCP endpoint for clients, such as https://mcp.example.com/mcp, which tokens must be for",
			func(c *Config) flag.Value { return textValue(&c.OAuth.Resource, anything) }},
		{groupAuth, "oauth-scopes", "`scopes` that the server knows, with commas",
			func(c *Config) flag.Value { return listValue(&c.OAuth.Scopes, anything) }},
		{groupAuth, "oauth-audiences", "`audiences` that are accepted instead of --" + flagOAuthResource + ", with commas",
			func(c *Config) flag.Value { return listValue(&c.OAuth.Audiences, anything) }},
		{groupAuth, "oauth-tenant-claim", "`claim` with the tenant of a caller; a token without it is refused",
			func(c *Config) flag.Value { return textValue(&c.OAuth.TenantClaim, anything) }},
		{groupAuth, flagIntrospectionClient, "`name` of this server at the issuer, to ask about tokens that are no JWTs",
			func(c *Config) flag.Value { return textValue(&c.OAuth.IntrospectionClient, anything) }},
		{groupAuth, flagIntrospectionSecret, "`path` of its secret",
			func(c *Config) flag.Value { return textValue(&c.OAuth.IntrospectionSecretFile, anything) }},
		{groupAuth, flagIntrospectionAlways, "ask about JWTs, too",
			func(c *Config) flag.Value { return boolValue(&c.OAuth.IntrospectionAlways) }},

		{groupRights, flagPolicy, "`path` of the rules that decide what callers may do; read again when it changes",
			func(c *Config) flag.Value { return textValue(&c.Policy.File, anything) }},
		{groupRights, flagPolicyDryRun, "count what the rules decide, and let everything pass",
			func(c *Config) flag.Value { return boolValue(&c.Policy.DryRun) }},
		{groupRights, flagAuditFile, "`path` of the record of what callers do, as JSON lines",
			func(c *Config) flag.Value { return textValue(&c.Audit.File, anything) }},
		{groupRights, flagAuditMaxSize, "`size` in MiB at which that file is rotated; 0 is 100",
			func(c *Config) flag.Value { return countValue(&c.Audit.MaxSize) }},
		{groupRights, flagAuditMaxFiles, "`number` of older files that are kept; 0 keeps all",
			func(c *Config) flag.Value { return countValue(&c.Audit.MaxFiles) }},
		{groupRights, flagAuditKey, "`path` of a key, such as openssl rand -hex 32 writes, for the digests of arguments and for a chain that shows changes of the file",
			func(c *Config) flag.Value { return textValue(&c.Audit.KeyFile, anything) }},
		{groupRights, flagAuditStrict, "refuse calls while their records cannot be kept",
			func(c *Config) flag.Value { return boolValue(&c.Audit.Strict) }},

		{groupHTTP, flagAllowedHosts, "`hosts` that the Host header may name, with commas; * allows all",
			func(c *Config) flag.Value { return listValue(&c.AllowedHosts, anything) }},
		{groupHTTP, "allowed-origins", "`origins` of web pages that may call the server, with commas; * allows all",
			func(c *Config) flag.Value { return listValue(&c.AllowedOrigins, anything) }},
		{groupHTTP, "refuse-local-origins", "refuse web pages of other local ports that --allowed-origins does not list",
			func(c *Config) flag.Value { return boolValue(&c.RefuseLocalOrigins) }},
		{groupHTTP, "allowed-headers", "`names` of further request headers that these pages may send, with commas; * allows all",
			func(c *Config) flag.Value { return listValue(&c.AllowedHeaders, headerName) }},
		{groupHTTP, flagTrustedProxies, "`networks` of the proxies whose X-Forwarded-For or Forwarded header tells the address of a caller, such as 10.0.0.0/8, with commas",
			func(c *Config) flag.Value { return listValue(&c.TrustedProxies, proxyNetwork) }},
		{groupHTTP, "h2c", "also accept HTTP/2 without TLS",
			func(c *Config) flag.Value { return boolValue(&c.H2C) }},
		{groupHTTP, "read-header-timeout", "`time` in which the header of a request must arrive",
			func(c *Config) flag.Value { return durationValue(&c.ReadHeaderTimeout) }},
		{groupHTTP, "idle-timeout", "`time` after which an idle connection is closed",
			func(c *Config) flag.Value { return durationValue(&c.IdleTimeout) }},
		{groupHTTP, "max-header-bytes", "`size` of a request's header at most",
			func(c *Config) flag.Value { return intValue(&c.MaxHeaderBytes) }},

		{groupRates, "rate-limits", "`limits` on how often messages come, with semicolons, such as \"calls 100/1m burst 20 per principal,tool methods tools/call; connects 30/1m per address methods initialize\"; off has none",
			func(c *Config) flag.Value { return rateLimitsValue(&c.RateLimits) }},

		{groupShutdown, "shutdown-delay", "`time` between saying \"not ready\" and refusing requests, for load balancers to notice",
			func(c *Config) flag.Value { return durationValue(&c.ShutdownDelay) }},
		{groupShutdown, "drain-timeout", "`time` that running requests have to finish, before they are cancelled",
			func(c *Config) flag.Value { return durationValue(&c.DrainTimeout) }},
		{groupShutdown, "refuse-time", "least `time` of refusing requests before the listener is closed, for load balancers that learn from refusals",
			func(c *Config) flag.Value { return durationValue(&c.RefuseTime) }},
		{groupShutdown, "linger-timeout", "`time` that the admin listener then waits for one more scrape, so that Prometheus has the last figures; 0 does not wait",
			func(c *Config) flag.Value { return durationValue(&c.LingerTimeout) }},
		{groupShutdown, "flush-timeout", "`time` for sending the last spans, metrics and logs, and for the last records of the audit",
			func(c *Config) flag.Value { return durationValue(&c.FlushTimeout) }},

		{groupSecrets, "state-keys-file", "`path` of the keys that seal what a client carries from one round of questions to the next; in base64, one on a line, the first one seals; the same for all replicas; read again when it changes. " + env.name(stateKeys) + " has the keys themselves, with commas",
			func(c *Config) flag.Value { return textValue(&c.StateKeysFile, anything) }},
		{groupSecrets, flagStore, "`URL` of the Redis server that the replicas share, such as redis://host:6379/0; needs state keys. Set " + env.name(flagStore) + " instead if it has a password, because all users can read arguments",
			func(c *Config) flag.Value { return storeValue(&c.Store) }},
		{groupSecrets, flagStoreReadiness, "be not ready while the store is away. Without it calls that need no store go on",
			func(c *Config) flag.Value { return boolValue(&c.StoreReadiness) }},
		{groupSecrets, "single-use-states", "accept each sealed state once, and without a store only in the process that has issued it",
			func(c *Config) flag.Value { return boolValue(&c.SingleUseStates) }},

		{groupConsole, "jaeger-url", "`URL` of the Jaeger page for the links to traces in the console",
			func(c *Config) flag.Value { return textValue(&c.JaegerURL, webAddressOrNone) }},
		{groupConsole, "prometheus-url", "`URL` of the Prometheus page for the links to queries in the console",
			func(c *Config) flag.Value { return textValue(&c.PrometheusURL, webAddressOrNone) }},

		{groupFlight, flagFlight, "keep a window on the runtime's trace, and snapshots of it at /debug/flight on the admin listener",
			func(c *Config) flag.Value { return boolValue(&c.Flight.On) }},
		{groupFlight, "flight-slow", "`time` after which a handler is so slow that a snapshot is taken; 0 is never",
			func(c *Config) flag.Value { return durationValue(&c.Flight.Slow) }},
		{groupFlight, "flight-interval", "least `time` between two snapshots that nobody has asked for",
			func(c *Config) flag.Value { return durationValue(&c.Flight.Interval) }},
		{groupFlight, "flight-age", "`time` that the window should reach back",
			func(c *Config) flag.Value { return durationValue(&c.Flight.Age) }},
		{groupFlight, "flight-bytes", "`size` that the window should have at most",
			func(c *Config) flag.Value { return intValue(&c.Flight.Bytes) }},
		{groupFlight, "flight-keep", "`number` of snapshots that are kept, in memory; the oldest goes first",
			func(c *Config) flag.Value { return intValue(&c.Flight.Keep) }},

		{groupLogs, "log-level", "least severe `level` that is logged: debug, info, warn or error",
			func(c *Config) flag.Value { return levelValue(&c.LogLevel) }},
		{groupLogs, "log-format", "`format` of the log on standard error: text or json",
			func(c *Config) flag.Value { return textValue(&c.LogFormat, oneOf("text", "json")) }},
		{groupLogs, "error-details", "tell callers the whole text of every error, which may have secrets in it: for development",
			func(c *Config) flag.Value { return boolValue(&c.ErrorDetails) }},
	}
}

// The names of flags that are used in several places.
const (
	flagAddr      = "addr"
	flagAdminAddr = "admin-addr"
	flagStdio     = "stdio"

	flagAdminAllowedHosts = "admin-allowed-hosts"
	flagTrustedProxies    = "trusted-proxies"
	flagAdminToken        = "admin-token-file"
	flagAdminSubjects     = "admin-subjects"
	flagAdminActions      = "admin-actions"
	flagMutexProfile      = "mutex-profile-fraction"
	flagBlockProfile      = "block-profile-rate"

	flagClientCert       = "auth-client-cert"
	flagClientCertScopes = "auth-client-cert-scopes"
	flagProxyHeader      = "auth-proxy-header"
	flagProxyTenant      = "auth-proxy-tenant-header"
	flagProxyScopes      = "auth-proxy-scopes-header"

	flagOAuthIssuer         = "oauth-issuer"
	flagOAuthResource       = "oauth-resource"
	flagIntrospectionClient = "oauth-introspection-client"
	flagIntrospectionSecret = "oauth-introspection-secret-file"
	flagIntrospectionAlways = "oauth-introspection-always"

	flagPolicy        = "policy"
	flagPolicyDryRun  = "policy-dry-run"
	flagAuditFile     = "audit-file"
	flagAuditMaxSize  = "audit-max-size"
	flagAuditMaxFiles = "audit-max-files"
	flagAuditKey      = "audit-key-file"
	flagAuditStrict   = "audit-strict"

	flagStore          = "store"
	flagStoreReadiness = "store-readiness"

	flagTLSCert           = "tls-cert"
	flagTLSKey            = "tls-key"
	flagTLSClientCA       = "tls-client-ca"
	flagTLSClientOptional = "tls-client-optional"

	flagFlight  = "flight-recorder"
	flagVersion = "version"
	flagHealth  = "healthcheck"
	flagCheck   = "check-config"
)

// check checks a configuration that was made in Go.
func (c Config) check() error {
	var faults []error
	for _, s := range settings(defaultPrefix) {
		v := s.value(&c)
		if err := v.Set(v.String()); err != nil {
			faults = append(faults, fmt.Errorf("invalid value %q for %s: %w", v.String(), s.name, err))
		}
	}
	if len(faults) == 0 {
		faults = c.checkDependencies()
	}
	return joinFaults(faults)
}

// flagAllowedHosts is named in a warning.
const flagAllowedHosts = "allowed-hosts"

// joinFaults makes one error of several.
func joinFaults(faults []error) error {
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("service: %w", errors.Join(faults...))
}

// An envPrefix is the prefix of a program's environment variables.
type envPrefix string

const defaultPrefix envPrefix = "VITRINE"

// name returns the environment variable of a flag.
func (p envPrefix) name(flagName string) string {
	return string(p) + "_" + strings.ToUpper(strings.ReplaceAll(flagName, "-", "_"))
}

var prefixForm = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)

// check returns an error for a prefix that is not valid in a name, and for the prefix of
// OpenTelemetry, because OTEL_LOG_LEVEL has another meaning.
func (p envPrefix) check() error {
	switch {
	case !prefixForm.MatchString(string(p)):
		return fmt.Errorf("service: environment prefix %q: want capital letters, digits and _, such as WEATHER", string(p))
	case p == "OTEL":
		return fmt.Errorf("service: environment prefix %q: the variables of that name belong to OpenTelemetry", string(p))
	}
	return nil
}
