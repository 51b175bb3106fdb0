package adapt

import (
	"context"
	stdjson "encoding/json"
	"errors"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
	"github.com/vitrine-mcp/vitrine/middleware"
)

// An admission is what policies have decided about one request.
type admission struct {
	decision *auth.Decision // nil: they were asked nothing
	err      error          // nil: the request may be served
}

// denied reports whether the request must be answered as one for what does not exist.
func (d *admission) denied() bool {
	return d.err != nil && d.decision != nil && d.decision.Effect != auth.NeedScopes
}

type admissionKey struct{}

// A decider asks policies, and notes what they say about the use of items.
type decider struct{ auth.Policy }

func newDecider(policies []auth.Policy) decider {
	consistent := make([]auth.Policy, len(policies))
	for i, policy := range policies {
		consistent[i] = auth.Consistent(policy)
	}
	return decider{auth.Combine(consistent...)}
}

// ListsAgree implements [auth.Agreeing].
func (decider) ListsAgree() bool { return true }

// Decide implements [auth.Policy].
func (p decider) Decide(ctx context.Context, who *auth.Principal, op *auth.Operation) auth.Decision {
	decided := p.Policy.Decide(ctx, who, op)
	if noted, ok := ctx.Value(admissionKey{}).(*admission); ok {
		before := noted.decision
		if before == nil || before.Passes() && (!decided.Passes() || before.Rule == "") ||
			before.Effect == auth.NeedScopes && decided.Effect == auth.Deny && !decided.DryRun {
			noted.decision = &decided
		}
	}
	return decided
}

// lists are the methods whose results policies filter. They ask nothing about the request.
var lists = []string{mcp.MethodToolsList, mcp.MethodPromptsList, mcp.MethodResourcesList, mcp.MethodResourcesTemplatesList}

// ask asks the policies about a request.
func (a *Adapter) ask(ctx context.Context, req *middleware.Request) *admission {
	d := &admission{}
	serves := func(context.Context, *middleware.Request) (mcp.Result, error) { return nil, nil }
	_, d.err = a.guard.authorize(serves)(context.WithValue(ctx, admissionKey{}, d), req)
	if d.decision != nil {
		a.guard.countDecision(d.decision)
	}
	return d
}

// Visible returns the items of a list that the caller may see. one returns a list of one item, and req is
// the request for the list.
func Visible[T any](ctx context.Context, a *Adapter, req *middleware.Request, items []T, one func(T) mcp.Result) []T {
	visible := []T{}
	client := req.Client()
	known := *req
	known.Peer.Client = &client // decoded once
	for _, item := range items {
		list := func(context.Context, *middleware.Request) (mcp.Result, error) { return one(item), nil }
		if seen, err := a.guard.authorize(list)(ctx, &known); err == nil && !isEmpty(seen) {
			visible = append(visible, item)
		}
	}
	return visible
}

// isEmpty reports whether a list is empty.
func isEmpty(list mcp.Result) bool {
	switch list := list.(type) {
	case *mcp.ListToolsResult:
		return len(list.Tools) == 0
	case *mcp.ListPromptsResult:
		return len(list.Prompts) == 0
	case *mcp.ListResourcesResult:
		return len(list.Resources) == 0
	case *mcp.ListResourceTemplatesResult:
		return len(list.ResourceTemplates) == 0
	}
	return true
}

// errAmbiguous is the error for a message about which policies cannot be asked.
var errAmbiguous = errors.New("the message has two members of one name, text that is not valid, or a name with other letters than the protocol has")

// AdmitMessage returns the error of a request that policies do not let pass, with a text for the caller, and
// records the request. It asks nothing about the covered methods, whose handlers call [Call.Admit].
func (a *Adapter) AdmitMessage(ctx context.Context, data []byte, covered []string, sender func(Params) (middleware.Peer, *auth.Principal)) error {
	var m message
	if !agreed(data) || json.Unmarshal(data, &m) != nil {
		var known struct {
			Method string `json:"method"`
		}
		if stdjson.Unmarshal(data, &known) == nil && slices.Contains(append(covered, lists...), known.Method) {
			return nil // the SDK decodes it before the policies are asked
		}
		a.guard.refusedAmbiguous(sender(Params{}))
		return errAmbiguous
	}
	if slices.Contains(covered, m.Method) || slices.Contains(lists, m.Method) {
		return nil
	}
	params, _ := ReadParams(m.Method, m.Params) // agreed
	req := &middleware.Request{
		Route: middleware.NewRoute(m.Method, "", ""), ID: ParseID(m.ID), Method: m.Method, Target: params.Target, Params: m.Params,
	}
	req.Peer, req.Principal = sender(params)
	x := ExchangeOf(ctx)
	req.Header = x.Header()
	d := x.admissionOf(m.Method)
	if d == nil {
		d = a.ask(ctx, req)
	}
	if d.err == nil {
		return nil
	}
	rpc := a.rejected(ctx, x, req, params, d, len(data))
	return errors.New(rpc.Message)
}

// Admit returns the error of a request that policies do not let pass. It asks them once. Call it after
// Begin.
func (c *Call) Admit() error {
	switch {
	case !c.adapter.Authorizes() || slices.Contains(lists, c.Request.Method):
		return nil
	case c.admission == nil && c.Ambiguous:
		if c.admission = c.adapter.ask(c, c.Request); c.admission.err == nil {
			c.admission = &admission{err: mcp.NewError(mcp.CodeInvalidParams, "%s", errAmbiguous)}
		}
	case c.admission == nil:
		c.admission = c.exchange.admissionOf(c.Request.Method)
	}
	if c.admission == nil {
		c.admission = c.adapter.ask(c, c.Request)
	}
	return c.admission.err
}

// Denied reports whether policies deny the request, so that it must be answered as one for what does
// not exist.
func (c *Call) Denied() bool { return c.admission != nil && c.admission.denied() }
