package auth

import (
	"context"
	"fmt"
	"slices"
)

// Combine returns a policy that asks all policies and decides as the strictest does: Deny, then
// NeedScopes, then Allow. It asks no more policies after a Deny. If several need scopes, the
// decision has the scopes of all, together with those of the operation, so that one challenge
// names them. The decision of a dry run is returned only if all that is enforced allows; the one that
// would be stricter is returned then. Of several decisions that allow, the last one that names a rule is
// returned. A policy that panics denies, with an error. Without policies everything is allowed.
func Combine(policies ...Policy) Policy {
	return combined(slices.Clone(policies))
}

// combined asks all of its policies. It passes decisions by pointer, because a list makes one for each of its items
// (BenchmarkFilteredList). The plain version returns them.
type combined []Policy

// Decide implements [Policy].
func (c combined) Decide(ctx context.Context, p *Principal, op *Operation) (decided Decision) {
	decided.Effect = Allow
	for _, policy := range c {
		var next Decision
		ask(ctx, policy, p, op, &next)
		decided.restrict(&next)
		if decided.Effect == Deny && !decided.DryRun {
			return decided
		}
	}
	if decided.Effect == NeedScopes {
		decided.Scopes = union(decided.Scopes, op.Scopes)
	}
	return decided
}

// ask asks one policy and makes its answer consistent.
func ask(ctx context.Context, policy Policy, p *Principal, op *Operation, d *Decision) {
	defer func() {
		if v := recover(); v != nil {
			*d = Decision{Err: fmt.Errorf("auth: the policy panicked: %v", v)}
		}
	}()
	*d = policy.Decide(ctx, p, op)
	if d.Err != nil || d.Effect > NeedScopes {
		d.Effect = Deny
	}
}

// restrict makes a decision one that holds for the next one, too.
func (d *Decision) restrict(next *Decision) {
	switch rank, least := next.strictness(), d.strictness(); {
	case rank < least:
	case rank > least, d.Effect == Allow:
		*d = *next
	case d.Effect == NeedScopes:
		d.Scopes = union(d.Scopes, next.Scopes)
	}
}

// strictness orders decisions: what is enforced and refuses comes after what is not enforced.
func (d *Decision) strictness() int {
	switch {
	case d.Effect == Deny && !d.DryRun:
		return 5
	case d.Effect == NeedScopes && !d.DryRun:
		return 4
	case d.Effect == Deny:
		return 3
	case d.Effect == NeedScopes:
		return 2
	case d.Rule != "":
		return 1
	}
	return 0
}

// union returns a followed by what only b has. It changes neither.
func union(a, b []string) []string {
	a = slices.Clip(a)
	for _, s := range b {
		if !slices.Contains(a, s) {
			a = append(a, s)
		}
	}
	return a
}
