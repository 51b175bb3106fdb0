package service

import (
	"log/slog"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/limits"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server"
)

// Config has all settings of a process. Begin with [DefaultConfig], because the zero value of a
// field does not stand for its default. The same settings are flags and environment variables;
// the program's --help lists them.
type Config struct {
	// Addr is the host:port of the MCP listener and Path the endpoint's path.
	Addr string
	Path string
	// AdminAddr is the host:port of the admin listener; "" and "off" disable it.
	// AdminAllowedHosts are the names that are allowed in the Host header of its requests, in
	// addition to addresses and localhost. This protects against DNS rebinding. Prometheus and
	// the probes of Kubernetes use the address of a pod. If a scraper uses a name, such as that of
	// a service, list the name here. Refused names are logged.
	AdminAddr         string
	AdminAllowedHosts []string
	// AdminTokenFile is the path of a file with the tokens of the admin listener, one on a line.
	// With it every page but /livez, /readyz and /metrics needs a token. Without it these are the
	// only pages for requests from other machines. The file is read again when it changes.
	AdminTokenFile string
	// AdminSubjects are callers, as Auth tells them apart, that may use all pages of the admin
	// listener, as with a token of AdminTokenFile. Each is a subject, or source#subject: the source is an
	// issuer of OAuth, "certificates" or "tokens". If there are several sources, it must name one, because
	// each may give the same name to another caller. The header of a proxy does not count there.
	AdminSubjects []string
	// AdminActions lets operators act with POST /debug/actions/: end requests, sessions and streams,
	// drain, set the level of the log, and turn on profiles. It needs AdminTokenFile or AdminSubjects.
	AdminActions bool
	// MutexProfileFraction has /debug/pprof/mutex sample one of so many events of contended locks
	// ([runtime.SetMutexProfileFraction]). BlockProfileRate has /debug/pprof/block sample one event for
	// each so many nanoseconds of waiting ([runtime.SetBlockProfileRate]). 0 is off.
	MutexProfileFraction int
	BlockProfileRate     int
	// Stdio serves one client on standard input and output instead of HTTP.
	Stdio bool
	// AllowedHosts, AllowedOrigins and AllowedHeaders, if not nil, replace those of the
	// server; see [server.WithAllowedHosts], [server.WithAllowedOrigins] and
	// [server.WithAllowedHeaders].
	AllowedHosts   []string
	AllowedOrigins []string
	AllowedHeaders []string
	// TrustedProxies, if not nil, replaces that of the server; see [server.WithTrustedProxies].
	TrustedProxies []string
	// RefuseLocalOrigins refuses web pages of other local ports; see [server.WithoutLocalOrigins].
	// false does not change the server.
	RefuseLocalOrigins bool
	// Eras, if not nil, replace those of the server; see [server.WithEras].
	Eras []mcp.Era

	// TLS has the certificates of the listeners.
	TLS TLSConfig
	// Auth says how callers are told apart. The environment variable VITRINE_TOKEN has the token of
	// a process that serves standard input and output.
	Auth AuthConfig

	// OAuth makes the process an OAuth resource server.
	OAuth OAuthConfig
	// Policy decides what callers may do, and Audit records what they do.
	Policy PolicyConfig
	Audit  AuditConfig

	// H2C also accepts HTTP/2 without TLS, for reverse proxies.
	H2C bool
	// ReadHeaderTimeout bounds the reading of a request's header, IdleTimeout the time between
	// requests on a connection. The server's limits bound bodies and answers. There is no
	// timeout for a whole request, because it would end long calls.
	ReadHeaderTimeout time.Duration
	IdleTimeout       time.Duration
	MaxHeaderBytes    int

	// ShutdownDelay is how long requests are accepted after /readyz fails, so that load
	// balancers can notice. DrainTimeout is how long running requests may then continue.
	// FlushTimeout bounds the export of the last spans, metrics and logs, and the last records of the
	// audit: both together. With an audit the export has four fifths of it.
	ShutdownDelay time.Duration
	DrainTimeout  time.Duration
	FlushTimeout  time.Duration
	// RefuseTime is the minimum time of refusing new requests before the listener is closed, for
	// load balancers that notice refusals and do not ask /readyz. It begins with the drain, so a
	// long drain includes it.
	RefuseTime time.Duration
	// LingerTimeout is how long the admin listener waits for one more scrape of /metrics after
	// the MCP listener is closed. The drain counts the calls that it cancels at its end, and
	// without another scrape Prometheus does not see these counts. Set it to a little more than
	// the time between two scrapes. The default of 0 does not wait. The listener waits for each
	// host that has scraped within the last LingerTimeout; two Prometheus servers on one host
	// count as one. It has no effect in stdio mode, because clients soon kill the process.
	LingerTimeout time.Duration

	// RateLimits, if not nil, replace those of the server; see [server.WithRateLimits].
	RateLimits []middleware.RateLimit

	// Limits replace the limits of the server, field by field. A zero field changes nothing.
	Limits server.Limits

	// StateKeys, if not nil, replace those of the server; see [server.WithStateKeys].
	// StateKeysFile is the path of a file with the keys in base64, one per line. It is read again when it
	// changes. The environment variable VITRINE_STATE_KEYS has them in base64, separated by commas.
	StateKeys     Keys
	StateKeysFile string
	// Store is the URL of the store that the replicas share, as [redisstore.Open] takes it; "" is none. It
	// needs state keys. See [server.WithStore].
	Store StoreURL
	// StoreReadiness makes the server not ready while the store is away; see [server.Server.StoreReady].
	StoreReadiness bool
	// SingleUseStates has each state accepted once; see [server.WithSingleUseStates]. false does not
	// change the server.
	SingleUseStates bool

	// Flight configures the flight recorder, which is off by default.
	Flight FlightConfig

	// JaegerURL is the address of the Jaeger page for the console's links to traces. With "" there
	// are no links.
	JaegerURL string
	// PrometheusURL is the address of the Prometheus page for the console's links to queries. With ""
	// queries are text.
	PrometheusURL string

	// LogLevel is the lowest level that is logged. LogFormat is "text" or "json".
	LogLevel  slog.Level
	LogFormat string

	// ErrorDetails tells callers the whole text of every error, for development; see
	// [server.WithErrorDetails]. false does not change the server.
	ErrorDetails bool
}

// DefaultConfig returns the defaults. They are safe in production; all listeners are on loopback.
func DefaultConfig() Config {
	return Config{
		Addr: "127.0.0.1:8080", Path: "/mcp", AdminAddr: "127.0.0.1:9464",
		ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		DrainTimeout: 20 * time.Second, FlushTimeout: 3 * time.Second,
		Flight:   defaultFlight(),
		LogLevel: slog.LevelInfo, LogFormat: "text",
	}
}

// adminOff reports whether there is no admin listener.
func (c *Config) adminOff() bool { return c.AdminAddr == "" || c.AdminAddr == off }

const off = "off"

// limits returns the server's limits with the configured limits in their place.
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

// stdioTokenName is the name of the environment variable with the token of a caller on standard input
// and output. It is no flag because all users of a machine can read the arguments of a process.
const stdioTokenName = "token"
