package session

import "github.com/vitrine-mcp/vitrine/auth"

// SetDecision stores what the policies and the scopes have decided about a request: for the audit
// record, which has its effect, rule, reason and dry run. Code that decides at admission calls it before
// the request is admitted or rejected, also for a decision that lets the request pass. A later
// decision, such as that of a handler about the URI of a subscription, replaces an earlier one that
// passes; the first one that does not pass stays. The decision must not be changed afterwards.
// SetDecision is safe for concurrent use.
func (r *Request) SetDecision(d *auth.Decision) {
	for {
		old := r.decision.Load()
		if old != nil && !old.Passes() || r.decision.CompareAndSwap(old, d) {
			return
		}
	}
}

// Decision returns what SetDecision has stored, or nil.
func (r *Request) Decision() *auth.Decision { return r.decision.Load() }
