package streamable

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/forwarded"
	"github.com/vitrine-mcp/vitrine/internal/logline"
	"github.com/vitrine-mcp/vitrine/internal/session"
)

// Config configures [New]. The zero value is safe on a loopback listener.
type Config struct {
	// AllowedHosts and AllowedOrigins list the allowed values of the Host and Origin headers.
	// On a loopback listener loopback names are always allowed as hosts, and as origins unless
	// RefuseLocalOrigins is set. "*" allows everything. An
	// entry without a port matches every port. A page of the endpoint's own host may use the
	// endpoint if AllowedHosts names the host, or if the host is an address: any other name
	// may have been rebound.
	AllowedHosts   []string
	AllowedOrigins []string
	// RefuseLocalOrigins refuses pages of other ports of this machine that AllowedOrigins does
	// not list.
	RefuseLocalOrigins bool
	// AllowedHeaders lists the headers that pages of these origins may send in addition to
	// those of the protocol and Authorization. "*" allows everything.
	AllowedHeaders []string
	// TrustedProxies are the networks of the proxies whose X-Forwarded-For or Forwarded header
	// says what the address of a caller is, such as 10.0.0.0/8.
	TrustedProxies []string
}

// Check returns an error for an AllowedHeaders entry that cannot be the name of a header:
// it must be a token (RFC 9110, section 5.6.2); and for a TrustedProxies entry that is no network.
func (c Config) Check() error {
	for _, name := range c.AllowedHeaders {
		if !isToken(name) {
			return fmt.Errorf("transport: %q cannot be the name of a header", logline.Printable(name, 128))
		}
	}
	if _, err := forwarded.Parse(c.TrustedProxies); err != nil {
		return fmt.Errorf("transport: trusted proxies: %w", err)
	}
	return nil
}

// An Endpoint is the Streamable HTTP endpoint of one core (specification: "Transports").
// It is an http.Handler for one path and serves both eras.
type Endpoint struct {
	core           *session.Core
	edge           edge
	allowedHeaders []string
	proxies        forwarded.Proxies
	warned         sync.Once    // of a ResponseWriter without Flush
	warnUntrusted  atomic.Int64 // when the next warning of an untrusted proxy may come, in Unix seconds
}

// New returns the endpoint of a core. It panics with the error of [Config.Check], which is a
// mistake of the program.
func New(core *session.Core, cfg Config) *Endpoint {
	if err := cfg.Check(); err != nil {
		panic(err)
	}
	proxies, _ := forwarded.Parse(cfg.TrustedProxies) // checked above
	return &Endpoint{
		core: core, edge: edge{cfg.AllowedHosts, cfg.AllowedOrigins, cfg.RefuseLocalOrigins}, allowedHeaders: cfg.AllowedHeaders,
		proxies: proxies,
	}
}

// untrusted warns that a peer forwards addresses and is no trusted proxy, once an hour: if it is a
// proxy, all of its users count as one caller.
func (h *Endpoint) untrusted(peer string) {
	now := time.Now().Unix()
	next := h.warnUntrusted.Load()
	if now < next || !h.warnUntrusted.CompareAndSwap(next, now+int64(time.Hour/time.Second)) {
		return
	}
	h.core.Logger().Warn("proxy.untrusted", "peer", peer,
		"problem", "the peer sends X-Forwarded-For or Forwarded and is no trusted proxy: all who come through it count as one caller",
		"set", "--trusted-proxies, or server.WithTrustedProxies, to the networks of the proxies if it is one of yours")
}

// RestrictsHosts reports whether there is a list of allowed Host headers for a listener that
// is not a loopback one.
func (h *Endpoint) RestrictsHosts() bool { return len(h.edge.hosts) > 0 }

// unflushable logs once that something around the endpoint hides Flush. That is a mistake of
// the program.
func (h *Endpoint) unflushable(w http.ResponseWriter) {
	h.warned.Do(func() {
		h.core.Logger().Error("http.flush_unsupported", "writer", fmt.Sprintf("%T", w),
			"effect", "no event streams, and answers leave when the exchange ends",
			"remedy", "wrap the endpoint in nothing whose ResponseWriter has neither Flush nor Unwrap, such as http.TimeoutHandler")
	})
}

// isToken reports whether a value is a token (RFC 9110, section 5.6.2), as the names
// of headers are.
func isToken(value string) bool {
	for i := range len(value) {
		c := value[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
			strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return value != ""
}
