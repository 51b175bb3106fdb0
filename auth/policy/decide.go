package policy

import (
	"context"

	"github.com/vitrine-mcp/vitrine/auth"
)

// Decide implements [auth.Policy]. Rules that deny are asked before rules that allow, both in the
// order of the file. The first one that matches decides.
func (p *Policy) Decide(_ context.Context, principal *auth.Principal, op *auth.Operation) (d auth.Decision) {
	counted := p.rules.Load().decide(principal, op, nil, &d)
	if !op.Listed {
		counted.add(&d)
	}
	if d.Err != nil {
		p.cfg.tellLimit(d.Err)
	}
	return d
}

// ListsAgree reports true: what a list hides is denied for all arguments, see [auth.Agreeing].
func (p *Policy) ListsAgree() bool { return true }

// An Explanation says how a decision was made.
type Explanation struct {
	Decision auth.Decision
	// Steps are the rules that were asked, in their order. Rules for other operations are left out.
	Steps []Step
}

// A Step is one rule that was asked.
type Step struct {
	// Rule is the name of the rule, and Line the line of the file where it begins.
	Rule string
	Line int
	// Effect is what the rule decides if it matches.
	Effect auth.Effect
	DryRun bool
	// Result is "match", "no match", "unknown" (it depends on arguments, or on the URI that a template
	// is used for) or "error".
	Result string
	// Err is the error of the evaluation, or nil. It has no values of arguments and claims.
	Err error
}

// Explain decides as [Policy.Decide] does, counts nothing, and says how.
func (p *Policy) Explain(principal *auth.Principal, op *auth.Operation) Explanation {
	var e Explanation
	p.rules.Load().decide(principal, op, &e.Steps, &e.Decision)
	return e
}

// decide makes d, which is empty, the decision. It returns what counts it, or nil. steps is nil, or gets the rules that
// were asked.
func (s *ruleset) decide(principal *auth.Principal, op *auth.Operation, steps *[]Step, d *auth.Decision) *counts {
	if principal == nil {
		principal = nobody
	}
	v := variablesPool.Get().(*variables)
	v.principal, v.op, v.set, v.steps = principal, op, s, steps
	counted := v.decide(d)
	v.reset()
	variablesPool.Put(v)
	d.DryRun = d.DryRun || s.dryRun && d.Effect != auth.Allow
	return counted
}

// decide asks what is enforced and then, if that allows, what would deny in a dry run.
func (v *variables) decide(d *auth.Decision) *counts {
	counted := v.enforced(d)
	if d.Effect == auth.Allow {
		if r, err := v.first(v.set.dryDenies, false); r != nil {
			counted = r.fill(d, err)
			d.DryRun = true
		}
	}
	return counted
}

// enforced decides without the rules of a dry run.
func (v *variables) enforced(d *auth.Decision) *counts {
	if r, err := v.first(v.set.denies, false); r != nil {
		return r.fill(d, err)
	}
	// An item is listed if some arguments may be allowed.
	if r, err := v.first(v.set.allows, true); r != nil {
		return r.fill(d, err)
	}
	if isProtocol(v.op) {
		d.Effect = auth.Allow
		return nil
	}
	if d.Effect, d.Rule = v.set.byDefault, RuleDefault; d.Effect == auth.Deny {
		d.Reason = "no rule allows it"
		if r, err := v.first(v.set.dryAllows, false); r != nil && err == nil {
			d.Reason = "no rule allows it but " + r.name + ", which is a dry run"
		}
	}
	return v.set.defaultCounts
}

// first returns the first rule for the operation that matches or cannot be evaluated. If that counts
// too, it is the first one of which the result is unknown.
func (v *variables) first(rules []*rule, orUnknown bool) (*rule, error) {
	for _, r := range rules {
		if !r.isFor(v.op) {
			continue
		}
		outcome, err := v.evaluate(r)
		if err != nil {
			err = r.failed(err)
		}
		if v.steps != nil {
			*v.steps = append(*v.steps, r.step(outcome, err))
		}
		if err != nil || outcome == yes || outcome == unknown && orUnknown {
			return r, err
		}
	}
	return nil, nil
}

// evaluate evaluates the expression of a rule.
func (v *variables) evaluate(r *rule) (result, error) {
	switch {
	case r.when == nil:
		return yes, nil
	case v.op.Listed:
		return v.evaluateListed(r.when)
	}
	return r.when.eval(v)
}

// fill makes d the decision of a rule that matches, or cannot be evaluated.
func (r *rule) fill(d *auth.Decision, err error) *counts {
	d.Effect, d.Rule, d.Reason, d.Err = r.effect, r.name, r.reason, err
	if err != nil {
		d.Effect = auth.Deny
	}
	return r.counts
}

// step says what came of a rule.
func (r *rule) step(outcome result, err error) Step {
	step := Step{Rule: r.name, Line: r.line, Effect: r.effect, DryRun: r.dryRun, Err: err, Result: results[outcome]}
	if err != nil {
		step.Result = "error"
	}
	return step
}

var results = [...]string{no: "no match", yes: "match", unknown: "unknown"}
