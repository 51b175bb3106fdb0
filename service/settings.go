package service

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
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
	groupHTTP      = "HTTP"
	groupShutdown  = "Shutdown"
	groupSecrets   = "Secrets"
	groupFlight    = "Flight recorder"
	groupConsole   = "Console"
	groupLogs      = "Logs"
	groupLimits    = "Limits"
)

func groups() []string {
	return []string{groupListeners, groupHTTP, groupShutdown, groupSecrets, groupConsole, groupFlight, groupLogs, groupLimits}
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
		{groupListeners, flagStdio, "serve one client on standard input and output instead of HTTP; the admin listener then opens only if --admin-addr is given",
			func(c *Config) flag.Value { return boolValue(&c.Stdio) }},

		{groupHTTP, flagAllowedHosts, "`hosts` that the Host header may name, with commas; * allows all",
			func(c *Config) flag.Value { return listValue(&c.AllowedHosts, anything) }},
		{groupHTTP, "allowed-origins", "`origins` of web pages that may call the server, with commas; * allows all",
			func(c *Config) flag.Value { return listValue(&c.AllowedOrigins, anything) }},
		{groupHTTP, "allowed-headers", "`names` of further request headers that these pages may send, with commas; * allows all",
			func(c *Config) flag.Value { return listValue(&c.AllowedHeaders, headerName) }},
		{groupHTTP, "h2c", "also accept HTTP/2 without TLS",
			func(c *Config) flag.Value { return boolValue(&c.H2C) }},
		{groupHTTP, "read-header-timeout", "`time` in which the header of a request must arrive",
			func(c *Config) flag.Value { return durationValue(&c.ReadHeaderTimeout) }},
		{groupHTTP, "idle-timeout", "`time` after which an idle connection is closed",
			func(c *Config) flag.Value { return durationValue(&c.IdleTimeout) }},
		{groupHTTP, "max-header-bytes", "`size` of a request's header at most",
			func(c *Config) flag.Value { return intValue(&c.MaxHeaderBytes) }},

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
