package auth

import "context"

// An Agreeing policy decides about lists and uses alike by itself: what it denies as listed
// ([Operation.Listed]) it denies for all arguments and variables. [Consistent] takes its word for it.
type Agreeing interface {
	Policy
	// ListsAgree reports whether lists and uses agree.
	ListsAgree() bool
}

// Consistent returns a policy that denies all uses of an item that the given policy hides, whatever
// that says about the use. It asks twice about each use, unless the policy is [Agreeing].
func Consistent(policy Policy) Policy {
	if agreeing, ok := policy.(Agreeing); ok && agreeing.ListsAgree() {
		return policy
	}
	return PolicyFunc(func(ctx context.Context, p *Principal, op *Operation) Decision {
		if op.Kind == "" || op.Listed {
			return policy.Decide(ctx, p, op)
		}
		listed := *op
		listed.Listed, listed.Arguments = true, nil
		if op.Kind == KindTemplate {
			listed.URI = ""
		}
		if d := policy.Decide(ctx, p, &listed); d.hides() {
			return d
		}
		return policy.Decide(ctx, p, op)
	})
}

// hides reports whether a decision keeps an item out of lists.
func (d *Decision) hides() bool {
	return !d.Passes() && (d.Err != nil || d.Effect != NeedScopes)
}
