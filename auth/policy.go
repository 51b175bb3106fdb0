package auth

import "context"

// An Operation is what a caller wants to do: the question to a [Policy]. It must not be changed.
type Operation struct {
	// Method is the method that uses the item, such as "tools/call", also if the item is listed.
	Method string
	// Kind is [KindTool], [KindPrompt], [KindResource] or [KindTemplate], and "" for a method
	// without an item.
	Kind string
	// Name is the registered name of the item, or "". Names of resources and templates need not be
	// unique.
	Name string
	// URI is the URI of a resource, or the one that a request reads or subscribes to through a
	// template. It is "" while that is unknown, because the template itself is listed or completed.
	URI string
	// Template is the URI template of a resource template, or "".
	Template string
	// Scopes are what the registration of the item needs for this operation.
	Scopes []string
	// Arguments is the JSON of the arguments (params.arguments), as the caller has sent it. It is
	// valid JSON and not yet validated. It is nil if there are none, or while they are unknown.
	Arguments []byte
	// Listed says that the item is listed, completed or announced, and not used. Arguments, and the
	// variables of a template, are unknown then: a policy denies only if it would deny for all of them.
	Listed bool
	// Transport is "http", "stdio", "memory", or the name of another transport.
	Transport string
	// Address is the network address of the caller as host:port, or as an address alone, or "".
	Address string
	// ClientName and ClientVersion are what the client says of itself. Nothing verifies them.
	ClientName, ClientVersion string
}

// Kinds of items, see [Operation].
const (
	KindTool     = "tool"
	KindPrompt   = "prompt"
	KindResource = "resource"
	KindTemplate = "resource template"
)

// An Effect is what a [Policy] decides. The zero value denies.
type Effect uint8

const (
	// Deny refuses the operation. The item is not listed, and a request for it is answered as if it
	// did not exist.
	Deny Effect = iota
	// Allow lets the operation pass.
	Allow
	// NeedScopes refuses the operation until the caller has more scopes. The item is listed, and a
	// request for it is answered with a challenge that names the scopes.
	NeedScopes
)

// String returns "deny", "allow" or "need_scopes". Any other value is "deny" too.
func (e Effect) String() string {
	switch e {
	case Allow:
		return "allow"
	case NeedScopes:
		return "need_scopes"
	}
	return "deny"
}

// A Decision is the answer of a [Policy]. The zero value denies.
type Decision struct {
	Effect Effect
	// Scopes are all scopes that the operation needs, and not only those that the caller lacks. They
	// are set with NeedScopes.
	Scopes []string
	// Rule names the rule that has decided, as a label of metrics: one of a small set.
	Rule string
	// Reason says why, for the operator. Callers never get it.
	Reason string
	// Err is why the evaluation failed, or nil. Whatever the effect, a decision with an error denies.
	Err error
	// DryRun says that the operation passes whatever the effect. The decision is counted and
	// explained as if it were enforced.
	DryRun bool
}

// Passes reports whether the operation may go on.
func (d *Decision) Passes() bool {
	return d.DryRun || d.Err == nil && d.Effect == Allow
}

// A Policy decides what a principal may do. It is asked for each request before resources are
// spent on it, and for each item of a list, so it must be quick and safe for concurrent use. The
// principal is nil for a caller without one.
//
// Lists and calls must agree: a policy that denies a listed operation (see [Operation]) denies
// that operation for all arguments and variables.
//
// Decide must not keep or change the operation, which is used again for the next item of a list.
type Policy interface {
	Decide(ctx context.Context, p *Principal, op *Operation) Decision
}

// PolicyFunc makes a [Policy] of a function.
type PolicyFunc func(ctx context.Context, p *Principal, op *Operation) Decision

// Decide calls f.
func (f PolicyFunc) Decide(ctx context.Context, p *Principal, op *Operation) Decision {
	return f(ctx, p, op)
}
