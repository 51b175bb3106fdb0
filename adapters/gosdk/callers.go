package gosdk

import (
	"context"
	"net/http"
	"time"

	sdkauth "github.com/modelcontextprotocol/go-sdk/auth"

	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/adapt"
)

// Authenticate sets what finds out who calls, such as the resource server of package auth/oauth or a way
// of package auth/local. Call it before the server serves.
//
// Over [Adapter.HTTP] the authenticator is asked before the body is read. A caller that it refuses gets
// the status and the challenge of the refusal. Middlewares and handlers have the principal
// ([middleware.Request.Principal], [PrincipalOf], and the SDK's TokenInfo), and never the credentials. The
// metadata of a resource server is served at its paths, if the handler of HTTP gets the requests for
// them; if it is mounted at one path, mount [oauth.ResourceServer.Handler] at the others.
//
// A session belongs to its principal: the ids that clients get are sealed, and another principal gets
// the status 404. Streams that a client only listens to end when its token expires.
//
// Over [Adapter.Transport] the authenticator is asked once, when the server connects. Requests that
// come over neither of them are refused.
//
// [middleware.Request.Principal]: https://pkg.go.dev/github.com/vitrine-mcp/vitrine/middleware#Request
// [oauth.ResourceServer.Handler]: https://pkg.go.dev/github.com/vitrine-mcp/vitrine/auth/oauth#ResourceServer.Handler
func (a *Adapter) Authenticate(by auth.Authenticator) { a.core.Authenticate(by) }

// SealSessions sets the key with which the ids of sessions are bound to principals: 32 random bytes or
// more, the same for all replicas that know the same sessions. Without it each process has its own.
func (a *Adapter) SealSessions(key []byte) error { return a.core.SealSessions(key) }

// Authorize adds policies, which decide what callers may do: those of package auth/policy, or one of the
// program that demands scopes ([auth.NeedScopes]). Call it before the server serves.
//
// What they deny is in no list, and a call of a tool, a get of a prompt or a read of a resource that they
// deny is answered as the SDK answers one for what does not exist. Completions and subscriptions get an
// error of the adapter. A caller that needs scopes is challenged over [Adapter.HTTP] by the status 403, or 401
// without a principal; over other transports, in a batch, and if the body is larger than 1 MiB, it gets
// a JSON-RPC error. As with [middleware.Authorize], resources have neither a name nor a template.
//
// [middleware.Authorize]: https://pkg.go.dev/github.com/vitrine-mcp/vitrine/middleware#Authorize
func (a *Adapter) Authorize(policies ...auth.Policy) { a.core.Authorize(policies...) }

// Audit sets the log that takes a record of each request, and of each caller that is refused. The
// program closes it after [Adapter.Shutdown]. Call it before the server serves. A strict log refuses
// requests for whose record there is no place.
func (a *Adapter) Audit(log *audit.Log) { a.core.Audit(log) }

// PrincipalOf returns the principal of the caller, from the context of a handler or of a middleware;
// nil if there is none.
func PrincipalOf(ctx context.Context) *auth.Principal { return adapt.PrincipalOf(ctx) }

// unlimited is longer than any token is expired.
const unlimited = 100 * 365 * 24 * time.Hour

// withTokenInfo gives the SDK the principal as its own authentication does: the SDK's type for it can only
// be put into a context by its handler, which wants a token.
func withTokenInfo(next http.Handler) http.Handler {
	verify := func(ctx context.Context, _ string, _ *http.Request) (*sdkauth.TokenInfo, error) {
		p := PrincipalOf(ctx)
		return &sdkauth.TokenInfo{UserID: p.Subject, Scopes: p.Scopes, Extra: p.Claims, Expiration: p.Expires}, nil
	}
	verified := sdkauth.RequireBearerToken(verify, &sdkauth.RequireBearerTokenOptions{
		AllowMissingExpiration: true, ClockSkew: unlimited, // the authenticator has decided about the time
	})(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		req.Header.Del("Authorization")
		next.ServeHTTP(w, req)
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if PrincipalOf(req.Context()) == nil {
			next.ServeHTTP(w, req)
			return
		}
		req.Header.Set("Authorization", "Bearer verified")
		verified.ServeHTTP(w, req)
	})
}
