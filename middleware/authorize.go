package middleware

import (
	"cmp"
	"context"
	"slices"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// Authorize returns a middleware that asks policies what callers may do, for servers other than that
// of package server, which asks them itself ([server.WithPolicy]) before it takes a slot for a request.
// It asks before the next handler runs, and once for each item of a list, which it leaves out of the list
// if the policies deny it.
//
// A request that is denied gets an error as if the item did not exist. A server with another text for
// items that do not exist so shows that there is something. A caller that needs scopes is challenged
// ([auth.Decision.Refusal]); c words the challenge, and may be nil.
//
// A middleware does not know which registration serves a URI. Resources have neither a name nor a
// template in the questions to the policies, and each use of a URI is asked about as that of a resource
// and as that of a template; both must be allowed. Rules for resources should look at URIs. Registrations
// have no scopes; a policy can demand them ([auth.NeedScopes]).
//
// Methods of the protocol without an item are not asked about, all other methods are. A request is refused as one with
// invalid params if the policies cannot be asked about it: a member that says what is subscribed to or completed has a wrong
// type, or servers may read it differently, because it is there twice or with other letters than the protocol has ("Ref"). The
// name and the URI of other requests are those of [Request.Target].
//
// [server.WithPolicy]: https://pkg.go.dev/github.com/vitrine-mcp/vitrine/server#WithPolicy
func Authorize(c auth.Challenger, policies ...auth.Policy) Middleware {
	consistent := make([]auth.Policy, len(policies))
	for i, policy := range policies {
		consistent[i] = auth.Consistent(policy)
	}
	policy := auth.Combine(consistent...)
	return func(next Handler) Handler {
		return func(ctx context.Context, req *Request) (mcp.Result, error) {
			q := question{ctx: ctx, policy: policy, req: req}
			if err := q.admit(c); err != nil {
				return nil, err
			}
			result, err := next(ctx, req)
			if err != nil {
				return result, err
			}
			return q.filter(result)
		}
	}
}

// A question asks a policy about one request.
type question struct {
	ctx    context.Context
	policy auth.Policy
	req    *Request
	client *mcp.Implementation // nil until it is needed
}

// decide asks about operations that are one request, and returns the strictest decision. If several need
// scopes, it is the first of them with the scopes of all, so that one challenge names them.
func (q *question) decide(ops ...auth.Operation) auth.Decision {
	if q.client == nil {
		client := q.req.Client()
		q.client = &client
	}
	decided := auth.Decision{Effect: auth.Allow}
	for i := range ops {
		op := &ops[i]
		op.Transport, op.Address = q.req.Peer.Transport, q.req.Peer.Addr
		op.ClientName, op.ClientVersion = q.client.Name, q.client.Version
		d := q.policy.Decide(q.ctx, q.req.Principal, op)
		switch {
		case d.Passes():
		case d.Effect != auth.NeedScopes:
			return d
		case decided.Effect == auth.NeedScopes:
			for _, scope := range d.Scopes {
				if !slices.Contains(decided.Scopes, scope) {
					decided.Scopes = append(decided.Scopes, scope)
				}
			}
		default:
			decided = d
			decided.Scopes = slices.Clip(d.Scopes) // the policy may use the rest of the array
		}
	}
	return decided
}

// admit returns the error of a request that may not be served.
func (q *question) admit(c auth.Challenger) error {
	ops, unknown, err := operationsOf(q.req)
	switch {
	case err != nil:
		return err
	case len(ops) == 0:
		return nil
	}
	d := q.decide(ops...)
	switch {
	case d.Passes():
		return nil
	case d.Effect == auth.NeedScopes:
		return d.Refusal(q.req.Principal, c)
	}
	return &deniedError{unknown, d}
}

// A deniedError is the error of a request that is denied. The caller gets the error for what does not
// exist, and the log has the rule.
type deniedError struct {
	unknown  *mcp.Error
	decision auth.Decision
}

// Error names the rule and the reason.
func (e *deniedError) Error() string {
	text := "denied by the rule " + cmp.Or(e.decision.Rule, "without a name")
	if e.decision.Reason != "" {
		text += ": " + e.decision.Reason
	}
	if e.decision.Err != nil {
		text += ": " + e.decision.Err.Error()
	}
	return text
}

// Unwrap returns the error for the caller.
func (e *deniedError) Unwrap() error { return e.unknown }

// operationsOf returns what policies are asked about a request, and the error for what does not exist. It returns an
// error for the caller if the params do not say clearly what is used.
func operationsOf(req *Request) (ops []auth.Operation, unknown *mcp.Error, err error) {
	method := req.Method
	switch method {
	case mcp.MethodToolsCall:
		return itemOperation(req, auth.KindTool)
	case mcp.MethodPromptsGet:
		return itemOperation(req, auth.KindPrompt)
	case mcp.MethodResourcesRead, mcp.MethodResourcesSubscribe:
		return useOfURI(method, req.Target), noResource(req.Target), nil
	case mcp.MethodCompletionComplete:
		return completionOperation(req)
	case mcp.MethodSubscriptionsListen:
		return listenOperations(req)
	}
	if slices.Contains(protocolMethods, method) {
		return nil, nil, nil
	}
	return []auth.Operation{{Method: method}}, mcp.NewError(mcp.CodeMethodNotFound, "there is no method %q", shortened(method)), nil
}

var protocolMethods = mcp.Methods()

// maxResources bounds the resources of one subscription, because policies are asked four questions about each.
const maxResources = 1000

// itemOperation is the use of a tool or a prompt. Decoders may read members inside the arguments differently. They go
// to the policies as they are, and policies that look at such arguments deny.
func itemOperation(req *Request, kind string) ([]auth.Operation, *mcp.Error, error) {
	params, err := members(req.Params, "params", "arguments")
	if err != nil {
		return nil, nil, err
	}
	op := auth.Operation{Method: req.Method, Kind: kind, Name: cmp.Or(req.Route.Target, req.Target), Arguments: params[0]}
	return []auth.Operation{op}, mcp.NewError(mcp.CodeInvalidParams, "there is no %s %q", kind, shortened(req.Target)), nil
}

// uriOperations are the use of a URI, which a resource or a template may serve.
func uriOperations(method, uri string, listed bool) []auth.Operation {
	return []auth.Operation{
		{Method: method, Kind: auth.KindResource, URI: uri, Listed: listed},
		{Method: method, Kind: auth.KindTemplate, URI: uri, Listed: listed},
	}
}

// useOfURI are the operations of a request for a URI. What lists do not show of it cannot be used.
func useOfURI(method, uri string) []auth.Operation {
	return append(uriOperations(mcp.MethodResourcesRead, uri, true), uriOperations(method, uri, false)...)
}

// completionOperation is the completion of an argument, which shows that its prompt or template exists.
func completionOperation(req *Request) ([]auth.Operation, *mcp.Error, error) {
	params, err := members(req.Params, "params", "ref")
	if err != nil {
		return nil, nil, err
	}
	if params[0].Kind() != '{' {
		return nil, nil, mustBe("params.ref", "an object")
	}
	ref, err := members(params[0], "params.ref", "type", "name", "uri")
	if err != nil {
		return nil, nil, err
	}
	kind, err := stringIn(ref[0], "params.ref.type")
	if err != nil {
		return nil, nil, err
	}
	switch kind {
	case "ref/prompt":
		name, err := stringIn(ref[1], "params.ref.name")
		return []auth.Operation{listedItem(auth.KindPrompt, name)},
			mcp.NewError(mcp.CodeInvalidParams, "there is no prompt %q", shortened(name)), err
	case "ref/resource":
		uri, err := stringIn(ref[2], "params.ref.uri")
		return []auth.Operation{listedItem(auth.KindTemplate, "")},
			mcp.NewError(mcp.CodeInvalidParams, "there is no resource template %q", shortened(uri)), err
	}
	return nil, nil, mustBe("params.ref.type", `"ref/prompt" or "ref/resource"`)
}

// listenOperations are the uses of the URIs that a subscription is about.
func listenOperations(req *Request) (ops []auth.Operation, unknown *mcp.Error, err error) {
	params, err := members(req.Params, "params", "notifications")
	if err != nil {
		return nil, nil, err
	}
	filter, err := members(params[0], "params.notifications", "resourceSubscriptions")
	if err != nil {
		return nil, nil, err
	}
	uris, err := stringsIn(filter[0], "params.notifications.resourceSubscriptions", maxResources)
	if len(uris) > maxResources {
		return nil, nil, mcp.NewError(mcp.CodeInvalidParams, "there are too many resources in one request")
	}
	for _, uri := range uris {
		ops = append(ops, useOfURI(mcp.MethodResourcesSubscribe, uri)...)
	}
	return ops, mcp.NewError(mcp.CodeInvalidParams, "there is no such resource"), err
}

// listedItem is an item in a list.
func listedItem(kind, name string) auth.Operation {
	method := map[string]string{
		auth.KindTool: mcp.MethodToolsCall, auth.KindPrompt: mcp.MethodPromptsGet, auth.KindTemplate: mcp.MethodResourcesRead,
	}[kind]
	return auth.Operation{Method: method, Kind: kind, Name: name, Listed: true}
}

func noResource(uri string) *mcp.Error {
	return mcp.NewError(mcp.CodeResourceNotFound, "there is no resource %q", shortened(uri)).WithData(mcp.ResourceErrorData{URI: uri})
}

// shortened returns the beginning of a text of the caller.
func shortened(s string) string {
	const most = 128
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
