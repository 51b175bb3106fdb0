package mcpgo

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/mark3labs/mcp-go/mcp"
	sdk "github.com/mark3labs/mcp-go/server"

	"github.com/vitrine-mcp/vitrine/audit"
	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/adapt"
	vitrine "github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// Authenticate sets what finds out who calls, such as the resource server of package auth/oauth or a way
// of package auth/local. Call it before the server serves.
//
// Over [Adapter.HTTP] the authenticator is asked before the body is read. A caller that it refuses gets
// the status and the challenge of the refusal. Middlewares and handlers have the principal
// ([middleware.Request.Principal], [PrincipalOf]), and never the credentials. The metadata of a resource
// server is served at its paths, if the handler of HTTP gets the requests for them; if it is mounted at one
// path, mount [oauth.ResourceServer.Handler] at the others.
//
// A session belongs to its principal: the ids that clients get are sealed, and another principal gets
// the status 404. Streams that a client only listens to end when its token expires. The sessions of
// mcp-go's older transport (server.NewSSEServer) have their id in the URL and are not bound.
//
// [Adapter.Listen] asks the authenticator once, at its beginning. Requests that come over neither of them
// are refused.
//
// [middleware.Request.Principal]: https://pkg.go.dev/github.com/vitrine-mcp/vitrine/middleware#Request
// [oauth.ResourceServer.Handler]: https://pkg.go.dev/github.com/vitrine-mcp/vitrine/auth/oauth#ResourceServer.Handler
func (a *Adapter) Authenticate(by auth.Authenticator) { a.core.Authenticate(by) }

// SealSessions sets the key with which the ids of sessions are bound to principals: 32 random bytes or
// more, the same for all replicas that serve the same sessions, as those of mcp-go do by default. Without
// it each process has its own, and a client that reaches another replica must begin a new session.
func (a *Adapter) SealSessions(key []byte) error { return a.core.SealSessions(key) }

// Authorize adds policies, which decide what callers may do: those of package auth/policy, or one of the
// program that demands scopes ([auth.NeedScopes]). Call it before the server serves.
//
// What they deny is in no list. A request for a tool or a prompt that they deny is answered as mcp-go
// answers one for what does not exist. For resources and all other methods mcp-go lets the adapter choose
// the text only, and not the code. A caller that needs scopes is challenged over [Adapter.HTTP] by the
// status 403, or 401 without a principal; over other transports, and if the body is larger than 1 MiB, it
// gets a JSON-RPC error. As with [middleware.Authorize], resources have neither a name nor a template.
//
// [middleware.Authorize]: https://pkg.go.dev/github.com/vitrine-mcp/vitrine/middleware#Authorize
func (a *Adapter) Authorize(policies ...auth.Policy) { a.core.Authorize(policies...) }

// Audit sets the log that takes a record of each request, and of each caller that is refused. The
// program closes it after [Adapter.Shutdown]. Call it before the server serves. A strict log refuses
// calls of tools, prompts and resources for whose record there is no place.
func (a *Adapter) Audit(log *audit.Log) { a.core.Audit(log) }

// PrincipalOf returns the principal of the caller, from the context of a handler or a hook; nil if there
// is none.
func PrincipalOf(ctx context.Context) *auth.Principal { return adapt.PrincipalOf(ctx) }

// guard adds the filters and hooks by which mcp-go lets callers be refused.
func (a *Adapter) guard(hooks *sdk.Hooks) {
	hooks.AddOnRequestInitialization(a.admit)
	sdk.WithToolFilter(a.filterTools)(a.server)
	sdk.WithPromptFilter(func(ctx context.Context, prompts []mcp.Prompt) []mcp.Prompt {
		return filtered(ctx, a, vitrine.MethodPromptsGet, prompts, func(p mcp.Prompt) vitrine.Result {
			return &vitrine.ListPromptsResult{Prompts: []*vitrine.Prompt{{Name: p.Name}}}
		})
	})(a.server)
	hooks.AddAfterListResources(func(ctx context.Context, _ any, _ *mcp.ListResourcesRequest, result *mcp.ListResourcesResult) {
		result.Resources = filtered(ctx, a, "", result.Resources, func(r mcp.Resource) vitrine.Result {
			return &vitrine.ListResourcesResult{Resources: []*vitrine.Resource{{URI: r.URI}}}
		})
	})
	hooks.AddAfterListResourceTemplates(func(ctx context.Context, _ any, _ *mcp.ListResourceTemplatesRequest, result *mcp.ListResourceTemplatesResult) {
		result.ResourceTemplates = filtered(ctx, a, "", result.ResourceTemplates, func(mcp.ResourceTemplate) vitrine.Result {
			return &vitrine.ListResourceTemplatesResult{ResourceTemplates: []*vitrine.ResourceTemplate{{}}}
		})
	})
}

// filtered returns the items of a list that the caller may see. one returns a list of one item. mcp-go
// also asks about the tool or the prompt that a request uses: it is left out if policies deny the
// request.
func filtered[T any](ctx context.Context, a *Adapter, use string, items []T, one func(T) vitrine.Result) []T {
	r := requestOf(ctx)
	if !a.core.Authorizes() || r == nil {
		return items
	}
	if r.method != use {
		return adapt.Visible(ctx, a.core, r.call.Request, items, one)
	}
	if r.call.Admit() != nil && r.call.Denied() {
		return nil
	}
	return items
}

// admit is a hook that mcp-go calls before all others. It refuses requests without a principal that must
// have one, and those that policies do not let pass and that have no middlewares. mcp-go answers with
// the text of the error.
func (a *Adapter) admit(ctx context.Context, _ any, message any) error {
	x, c := adapt.ExchangeOf(ctx), connectionOf(ctx)
	if a.core.Authenticates() && !x.Authenticated() && c == nil {
		a.core.RefuseStranger(peerOf(ctx, adapt.Params{}))
		return errors.New("authentication is required")
	}
	data, ok := message.(json.RawMessage)
	if !a.core.Authorizes() || !ok {
		return nil
	}
	return a.core.AdmitMessage(ctx, data, covered, func(params adapt.Params) (middleware.Peer, *auth.Principal) {
		return peerOf(ctx, params), principalOf(ctx)
	})
}

// covered are the requests whose handlers have middlewares or filters.
var covered = []string{vitrine.MethodToolsCall, vitrine.MethodPromptsGet, vitrine.MethodResourcesRead}

// principalOf returns the principal of the sender of a message, or nil.
func principalOf(ctx context.Context) *auth.Principal {
	if c := connectionOf(ctx); c != nil {
		return c.principal
	}
	return adapt.ExchangeOf(ctx).Principal()
}
