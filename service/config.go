package service

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/server"
)

// Config is everything that can be set about a process. Begin with
// [DefaultConfig]: the zero value of a field means what it says and not the
// default. The same settings can be given as flags and as environment variables;
// the program's --help lists them.
type Config struct {
	// Addr is the host:port of the MCP listener and Path the endpoint's path.
	Addr string
	Path string
	// AdminAddr is the host:port of the admin listener; "" and "off" disable it.
	// AdminAllowedHosts are the names that the Host header of its requests may have, beside
	// addresses and localhost, against pages that have rebound a name of their own (DNS
	// rebinding). Prometheus and the probes of Kubernetes use the address of a pod; a scraper
	// that uses a name, such as that of a service, needs it listed here. A refused name is logged.
	AdminAddr         string
	AdminAllowedHosts []string
	// Stdio serves one client on standard input and output instead of HTTP.
	Stdio bool
	// AllowedHosts, AllowedOrigins and AllowedHeaders, if not nil, replace those of the
	// server; see [server.WithAllowedHosts], [server.WithAllowedOrigins] and
	// [server.WithAllowedHeaders].
	AllowedHosts   []string
	AllowedOrigins []string
	AllowedHeaders []string

	// H2C also accepts HTTP/2 without TLS, for reverse proxies that speak it.
	H2C bool
	// ReadHeaderTimeout bounds the reading of a request's header, IdleTimeout the life
	// of a connection between requests. Bodies and answers are bounded by the server's
	// limits, not here: a time-out for the whole request would end long calls.
	ReadHeaderTimeout time.Duration
	IdleTimeout       time.Duration
	MaxHeaderBytes    int

	// ShutdownDelay is how long requests are still accepted after /readyz began to
	// say no, until load balancers have noticed. DrainTimeout is how long running
	// requests may then go on, FlushTimeout how long the last spans and metrics may take.
	ShutdownDelay time.Duration
	DrainTimeout  time.Duration
	FlushTimeout  time.Duration
	// RefuseTime is how long new requests are refused at least before the listener is
	// closed, for load balancers that learn from refusals and do not ask /readyz. It
	// begins with the drain, and so costs only what the drain does not take.
	RefuseTime time.Duration
	// LingerTimeout is how long the admin listener waits, after the drain has ended and the
	// MCP listener is closed, for one more scrape of /metrics: the calls that the drain has
	// cut are counted in the last moment, and are lost with a process that ends right then.
	// Set it to somewhat more than the time between two scrapes; the default of 0 does not
	// wait. The listener waits for each host that has scraped within the last LingerTimeout,
	// and not at all without one; two Prometheus servers on one host count as one. It has no
	// effect in stdio mode, whose clients kill the process soon.
	LingerTimeout time.Duration

	// Limits replace those of the server, field by field; zero leaves the server's.
	Limits server.Limits

	// StateKeys, if not nil, replace those of the server; see [server.WithStateKeys].
	// StateKeysFile names a file that has them instead, in base64, one on a line. The
	// environment variable VITRINE_STATE_KEYS has them in base64, with commas.
	StateKeys     Keys
	StateKeysFile string

	// Flight is about the flight recorder, which is off by default.
	Flight FlightConfig

	// JaegerURL is where the console's links to traces lead: the address of a Jaeger page.
	// "" makes none.
	JaegerURL string

	// LogLevel is the least severe level that is logged; LogFormat is "text" or "json".
	LogLevel  slog.Level
	LogFormat string

	// ErrorDetails tells callers the whole text of every error, for development; see
	// [server.WithErrorDetails]. false leaves the server as it is.
	ErrorDetails bool
}

// DefaultConfig returns the defaults: everything on loopback, safe in production.
func DefaultConfig() Config {
	return Config{
		Addr: "127.0.0.1:8080", Path: "/mcp", AdminAddr: "127.0.0.1:9464",
		ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		DrainTimeout: 20 * time.Second, FlushTimeout: 3 * time.Second,
		Flight:   defaultFlight(),
		LogLevel: slog.LevelInfo, LogFormat: "text",
	}
}

// adminOff reports whether there is no admin listener.
func (c *Config) adminOff() bool { return c.AdminAddr == "" || c.AdminAddr == off }

const off = "off"

// limits returns the server's limits with those that are configured in their place.
func (c *Config) limits(l server.Limits) server.Limits {
	from, to := (*limits.Limits)(&c.Limits), (*limits.Limits)(&l)
	for _, b := range limits.All() {
		if set := b.Int(from); set != nil && *set != 0 {
			*b.Int(to) = *set
		}
		if set := b.Duration(from); set != nil && *set != 0 {
			*b.Duration(to) = *set
		}
	}
	return l
}

// stateKeys returns the keys that are configured; nil if none are.
func (c *Config) stateKeys() (Keys, error) {
	switch {
	case c.StateKeysFile == "":
		return c.StateKeys, nil
	case c.StateKeys != nil:
		return nil, errors.New("service: the state keys are given both as keys and as a file")
	}
	text, err := os.ReadFile(c.StateKeysFile)
	if err != nil {
		return nil, fmt.Errorf("service: state keys: %w", err)
	}
	keys, err := parseKeys(string(text))
	if err != nil {
		return nil, fmt.Errorf("service: state keys in %s: %w", c.StateKeysFile, err)
	}
	return keys, nil
}
