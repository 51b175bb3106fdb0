package session

import (
	"context"
	"log/slog"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/logline"
)

// A DecisionCounter counts the decisions of one rule that had one effect.
type DecisionCounter struct {
	Rule, Effect string
	Count        uint64
}

// dryRun is before the effect of a decision that was not enforced.
const dryRun = "dry_run_"

// Effects lists the effects of decisions, as labels of metrics. The caller owns the slice.
func Effects() []string {
	deny, need := auth.Deny.String(), auth.NeedScopes.String()
	return []string{auth.Allow.String(), deny, need, dryRun + deny, dryRun + need}
}

// EffectOf returns the label of a decision.
func EffectOf(d *auth.Decision) string {
	if effect := d.Effect.String(); !d.DryRun || d.Effect == auth.Allow {
		return effect
	} else {
		return dryRun + effect
	}
}

// CountDecision counts a decision about an operation.
func (c *Core) CountDecision(d *auth.Decision) {
	effect := EffectOf(d)
	c.decisions.add(logline.Printable(d.Rule, maxLabelText), effect, effect)
}

func (c *Core) decided() (all []DecisionCounter) {
	c.decisions.each(func(rule, effect string, n uint64) { all = append(all, DecisionCounter{rule, effect, n}) })
	return all
}

// LogDecision writes the log line of a decision that denies, or would deny if it were enforced: at
// info, or at error if a rule could not be evaluated, once a second for each rule and effect, and at
// debug otherwise. An operation that needs scopes is rejected, which has a line of its own. about returns
// the fields that name the operation; it is called only for a line.
func (c *Core) LogDecision(ctx context.Context, d *auth.Decision, about func() []any) {
	if d.Err == nil && !d.DryRun && d.Effect != auth.Deny {
		return
	}
	effect, rule := EffectOf(d), logline.Printable(d.Rule, maxLabelText)
	level, silenced := c.senderLevel("policy.decided", rule+" "+effect)
	attrs := append(about(), "rule", rule, "effect", effect, silenced)
	attrs = appendText(attrs, "reason", logline.Printable(d.Reason, maxReasonLogged))
	if d.Err != nil {
		attrs = append(attrs, "error", logline.Printable(d.Err.Error(), maxReasonLogged))
		if level == slog.LevelInfo {
			level = slog.LevelError
		}
	}
	c.logger.Log(ctx, level, "policy.decided", attrs...)
}

// maxReasonLogged bounds the reason of a decision, and its error, in the log, in bytes.
const maxReasonLogged = 256
