package middleware

import (
	"context"
	"time"

	"github.com/vitrine-mcp/vitrine/internal/rates"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A RateLimit bounds how often messages come. It is a token bucket for each value of what it is
// per: the bucket holds Burst tokens, a message takes one, and Requests tokens come back in each
// Window. A message for which there is no token is refused with the status 429, the time after
// which to retry, and the name of the limit.
//
// A long Window makes a quota. Because the bucket is full at first, a caller can have up to
// Burst + Requests messages in one window. The buckets are in the memory of the process: each
// replica has its own, and a restart fills them. Those of a server with a store
// (server.WithRateLimits, server.WithStore) are shared by its replicas.
type RateLimit struct {
	// Name is the name of the limit in errors, metrics and the log: letters, digits, _, - and ., and
	// the first one a letter.
	Name string
	// Per is what has a bucket of its own, any combination of [PerPrincipal], [PerTenant],
	// [PerAddress], [PerMethod] and [PerTool]. Without any all messages share one bucket.
	Per []string
	// Methods are the methods and notifications that the limit is for. Without any it is for all
	// but initialize, notifications/initialized, ping, server/discover and tasks/cancel, which must
	// be named to be limited. notifications/cancelled is never limited.
	Methods []string
	// Tools are the names of the tools that the limit is for. With any it is for tools/call only,
	// and so is a limit per tool that names no methods.
	Tools []string
	// Requests is how many messages may come in a Window, in the long run.
	Requests int
	Window   time.Duration
	// Burst is how many messages may come at once; 0 is Requests.
	Burst int
}

// What a [RateLimit] can be per.
const (
	// PerPrincipal is per issuer and subject. Callers without a principal count by their address.
	PerPrincipal = rates.PerPrincipal
	// PerTenant is per issuer and tenant of the principal. Callers without a tenant count by their principal.
	PerTenant = rates.PerTenant
	// PerAddress is per address of the caller, and per network of 64 bits for IPv6. A byte stream
	// without an address, such as stdio, has a bucket of its own in a server ([server.WithRateLimits]).
	// The middleware [RateLimits] cannot tell such streams apart: they share one bucket.
	//
	// [server.WithRateLimits]: https://pkg.go.dev/github.com/vitrine-mcp/vitrine/server#WithRateLimits
	PerAddress = rates.PerAddress
	PerMethod  = rates.PerMethod
	PerTool    = rates.PerTool
)

// maxBuckets is how many buckets the limits have at most, all together: the default of the server's MaxRateBuckets.
const maxBuckets = 10_000

// RateLimits returns a middleware that refuses requests that come too often. A request takes a token
// of all limits that are for it, or of none. The error says what is wrong with the limits.
//
// The server of package server has the same limits as an option ([server.WithRateLimits]). It asks
// them before it takes a slot for the request, and has metrics of them.
//
// [server.WithRateLimits]: https://pkg.go.dev/github.com/vitrine-mcp/vitrine/server#WithRateLimits
func RateLimits(limits ...RateLimit) (Middleware, error) {
	rules, named := make([]rates.Rule, len(limits)), map[string]bool{}
	for i, limit := range limits {
		rules[i] = rates.Rule(limit)
		for _, tool := range limit.Tools {
			named[tool] = true
		}
	}
	limiter, err := rates.New(rules, maxBuckets, func() {})
	if err != nil {
		return nil, err
	}
	return func(next Handler) Handler {
		return func(ctx context.Context, req *Request) (mcp.Result, error) {
			refused := limiter.Check(&rates.Message{
				Method: req.Route.Method, Tool: toolOf(req, named), Notification: req.ID.IsZero(),
				Principal: req.Principal, Addr: req.Peer.Addr,
			}, time.Now())
			if refused != nil {
				return nil, refused
			}
			return next(ctx, req)
		}
	}, nil
}

// toolOf returns the tool of a request, or "". It is a registered tool or one that the limits name, because
// each tool can have a bucket.
func toolOf(req *Request, named map[string]bool) string {
	if name := nameOf(req); req.Route.Method == mcp.MethodToolsCall && (name == req.Route.Target || named[name]) {
		return name
	}
	return ""
}
