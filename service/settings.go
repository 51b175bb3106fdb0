package service

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/internal/streamable"
	"github.com/vitrine-mcp/vitrine/mcp"
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
	return []string{groupListeners, groupHTTP, groupRates, groupShutdown, groupSecrets, groupConsole, groupFlight, groupLogs, groupLimits}
}

// settings returns the table. Usage texts name variables with the prefix of env.
func settings(env envPrefix) []setting { return append(ownSettings(env), limitSettings()...) }

// limitSettings returns a setting for each limit of the server.
func limitSettings() (all []setting) {
	for _, b := range limits.All() {
		unit := cmp.Or(b.Unit, "time")
		all = append(all, setting{groupLimits, strings.ReplaceAll(b.Name, "_", "-"), b.Usage + " (`" + unit + "`)",
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
		{groupListeners, "eras", "`eras` of the protocol that are served, with commas: modern (2026-07-28 and later), legacy (2024-11-05 to 2025-11-25); both without it",
			func(c *Config) flag.Value { return erasValue(&c.Eras) }},
		{groupListeners, flagStdio, "serve one client on standard input and output instead of HTTP; the admin listener then opens only if --admin-addr is given",
			func(c *Config) flag.Value { return boolValue(&c.Stdio) }},

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
		{groupShutdown, "flush-timeout", "`time` for sending the last spans, metrics and logs",
			func(c *Config) flag.Value { return durationValue(&c.FlushTimeout) }},

		{groupSecrets, "state-keys-file", "`path` of the keys that seal what a client carries from one round of questions to the next; in base64, one on a line, the first one seals; the same for all replicas. " + env.name(stateKeys) + " has the keys themselves, with commas",
			func(c *Config) flag.Value { return textValue(&c.StateKeysFile, anything) }},
		{groupSecrets, "single-use-states", "accept each sealed state once, and only in the process that has issued it",
			func(c *Config) flag.Value { return boolValue(&c.SingleUseStates) }},

		{groupConsole, "jaeger-url", "`URL` of the Jaeger page for the links to traces in the console",
			func(c *Config) flag.Value { return textValue(&c.JaegerURL, webAddressOrNone) }},

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

	flagFlight  = "flight-recorder"
	flagVersion = "version"
	flagHealth  = "healthcheck"
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

// A value is a flag.Value for a field of a Config.
type value[T any] struct {
	field  *T
	parse  func(string) (T, error)
	format func(T) string
	isBool bool
}

func (v *value[T]) Set(text string) error {
	parsed, err := v.parse(text)
	if err == nil {
		*v.field = parsed
	}
	return err
}

// String implements flag.Value. Package flag also calls it on a zero value.
func (v *value[T]) String() string {
	if v == nil || v.field == nil {
		return ""
	}
	return v.format(*v.field)
}

// IsBoolFlag makes --flag mean --flag=true.
func (v *value[T]) IsBoolFlag() bool { return v.isBool }

func textValue(field *string, check func(string) error) flag.Value {
	return &value[string]{
		field:  field,
		parse:  func(text string) (string, error) { return text, check(text) },
		format: func(text string) string { return text },
	}
}

// parsed returns a value with its parser. Errors say that want is expected. ok reports whether a
// value is valid; it may be nil.
func parsed[T any](field *T, want string, parse func(string) (T, error), ok func(T) bool, format func(T) string) *value[T] {
	return &value[T]{field: field, format: format, parse: func(text string) (T, error) {
		v, err := parse(text)
		if err != nil || ok != nil && !ok(v) {
			return v, errors.New("want " + want)
		}
		return v, nil
	}}
}

// limitValue returns a value whose zero stands for a default. The server checks its range.
func limitValue[T comparable](field *T, byDefault T, parse func(string) (T, error), format func(T) string) flag.Value {
	return parsed(field, "a value like "+format(byDefault), parse, nil, func(v T) string {
		return format(cmp.Or(v, byDefault))
	})
}

func boolValue(field *bool) flag.Value {
	v := parsed(field, "true or false", strconv.ParseBool, nil, strconv.FormatBool)
	v.isBool = true
	return v
}

func intValue(field *int) flag.Value {
	return parsed(field, "a positive whole number", strconv.Atoi, func(n int) bool { return n > 0 }, strconv.Itoa)
}

func durationValue(field *time.Duration) flag.Value {
	return parsed(field, "a time such as 500ms, 20s or 1m30s", time.ParseDuration, func(d time.Duration) bool { return d >= 0 }, formatDuration)
}

func levelValue(field *slog.Level) flag.Value {
	parse := func(text string) (level slog.Level, err error) {
		err = level.UnmarshalText([]byte(text))
		return level, err
	}
	return parsed(field, "debug, info, warn or error", parse, nil, func(l slog.Level) string { return strings.ToLower(l.String()) })
}

func listValue(field *[]string, check func(entry string) error) flag.Value {
	format := func(list []string) string { return strings.Join(list, ",") }
	return &value[[]string]{field: field, format: format, parse: func(text string) (list []string, err error) {
		for entry := range strings.SplitSeq(text, ",") {
			if entry = strings.TrimSpace(entry); entry == "" {
				continue
			}
			if err := check(entry); err != nil {
				return nil, err
			}
			list = append(list, entry)
		}
		return list, nil
	}}
}

// erasValue returns a value for a list of eras.
func erasValue(field *[]mcp.Era) flag.Value {
	names := map[string]mcp.Era{mcp.Modern.String(): mcp.Modern, mcp.Legacy.String(): mcp.Legacy}
	var texts []string
	list := listValue(&texts, oneOf(mcp.Modern.String(), mcp.Legacy.String()))
	return &value[[]mcp.Era]{
		field: field,
		parse: func(text string) (eras []mcp.Era, err error) {
			texts = nil
			err = list.Set(text)
			for _, name := range texts {
				eras = append(eras, names[name])
			}
			return eras, err
		},
		format: func(eras []mcp.Era) string {
			var texts []string
			for _, e := range eras {
				texts = append(texts, e.String())
			}
			return strings.Join(texts, ",")
		},
	}
}

// formatDuration writes 2m instead of 2m0s.
func formatDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func anything(string) error { return nil }

// wants returns a check of a text. Its error says what is expected.
func wants(what string, ok func(text string) bool) func(text string) error {
	return func(text string) error {
		if !ok(text) {
			return errors.New("want " + what)
		}
		return nil
	}
}

var (
	hostPort      = wants("host:port, such as 127.0.0.1:8080 or :8080", isHostPort)
	hostPortOrOff = wants("host:port, such as 127.0.0.1:9464, or off", func(text string) bool {
		return text == "" || text == off || isHostPort(text)
	})
	urlPath = wants("a path that begins with /, such as /mcp", func(text string) bool {
		return strings.HasPrefix(text, "/") && !strings.Contains(text, "//") && !strings.ContainsAny(text, " {}?#%")
	})
	headerName = wants("names of headers, such as X-Tenant, X-Region", func(text string) bool {
		return (streamable.Config{AllowedHeaders: []string{text}}).Check() == nil
	})
	proxyNetwork = wants("networks or addresses of proxies, such as 10.0.0.0/8,2001:db8::1, and none of all addresses", func(text string) bool {
		return (streamable.Config{TrustedProxies: []string{text}}).Check() == nil
	})
	webAddressOrNone = wants("an address such as http://localhost:16686", isWebAddressOrNone)
)

func isHostPort(text string) bool {
	_, port, err := net.SplitHostPort(text)
	return err == nil && port != ""
}

// isWebAddressOrNone allows only HTTP, because the address becomes a link.
func isWebAddressOrNone(text string) bool {
	u, err := url.Parse(text)
	return text == "" || err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.RawQuery == "" && u.Fragment == ""
}

func oneOf(words ...string) func(string) error {
	return wants(strings.Join(words, " or "), func(text string) bool { return slices.Contains(words, text) })
}
