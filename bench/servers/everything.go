package servers

import (
	"crypto/rand"
	"os"
	"time"

	"github.com/vitrine-mcp/vitrine/middleware"
	"github.com/vitrine-mcp/vitrine/server"
	"github.com/vitrine-mcp/vitrine/store/redisstore"
)

// EverythingOn is the name of Vitrine with all that a service in production has: access tokens,
// scopes, rules and the audit, a rate limit, a store of several replicas, and exported traces.
const EverythingOn = "vitrine-everything"

// Everything returns Vitrine with everything on, its peers, which have nothing of that, and Vitrine
// without it. All get the same bytes, among them an access token.
func Everything() []Kind {
	return named(Floor, Service, EverythingOn, "vitrine-everything-gogc", "mcpgo-validating")
}

// shared returns the options of a server that has a rate limit, and is one of several replicas.
func (p *protection) shared() ([]server.Option, error) {
	store, err := redisstore.Open("redis://" + os.Getenv(RedisEnv) + "/0")
	if err != nil {
		return nil, err
	}
	p.closers = append(p.closers, store.Close)
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return []server.Option{
		server.WithStateKeys(key),
		server.WithStore(store.Store()),
		server.WithRateLimits(middleware.RateLimit{
			Name: "calls", Per: []string{middleware.PerPrincipal}, Requests: 1_000_000, Window: time.Second, // refuses none of the load
		}),
	}, nil
}
