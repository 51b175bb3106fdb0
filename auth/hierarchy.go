package auth

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A Hierarchy says which scopes a scope includes. Inclusion is transitive: with
//
//	auth.Hierarchy{"files:admin": {"files:write"}, "files:write": {"files:read"}}
//
// files:admin includes files:read too. It must not be changed once it is in use. The zero value
// includes nothing.
type Hierarchy map[string][]string

// Missing returns those of the needed scopes that are neither granted nor included in a granted
// one, in their order; nil if none is missing. It takes no longer for scopes that include each other.
func (h Hierarchy) Missing(granted, needed []string) (missing []string) {
	for _, scope := range needed {
		if !slices.Contains(granted, scope) && !h.includes(granted, scope) {
			missing = append(missing, scope)
		}
	}
	return missing
}

// includes reports whether one of the granted scopes includes a scope. It looks for those that
// would, so that its work depends on the hierarchy and not on the number of granted scopes, which
// the caller's token decides.
func (h Hierarchy) includes(granted []string, scope string) bool {
	var room [16]string
	would := append(room[:0], scope)
	for i := 0; i < len(would); i++ {
		for above, below := range h {
			if !slices.Contains(below, would[i]) || slices.Contains(would, above) {
				continue
			}
			if slices.Contains(granted, above) {
				return true
			}
			would = append(would, above)
		}
	}
	return false
}

// Check returns an error for a hierarchy that is a mistake: a scope that includes itself, also
// through others, or that is no scope of RFC 6749, section 3.3.
func (h Hierarchy) Check() error {
	for _, above := range slices.Sorted(maps.Keys(h)) {
		below := h[above]
		for _, scope := range append([]string{above}, below...) {
			if !validScope(scope) {
				return fmt.Errorf("auth: the hierarchy has %q, which is no scope: a scope is one or more printable ASCII characters without space, quote and backslash", scope)
			}
		}
		if slices.Contains(below, above) || h.includes(below, above) {
			return fmt.Errorf("auth: the scope %q includes itself", above)
		}
	}
	return nil
}

// validScope reports whether a text is a scope-token of RFC 6749, section 3.3.
func validScope(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || r == '"' || r == '\\'
	})
}

// RuleScopes is the rule that the decisions of [Scopes] name.
const RuleScopes = "scopes"

// Scopes returns the policy that demands the scopes of an operation ([Operation.Scopes]): the
// principal must have each, or one that includes it. What needs no scopes is allowed.
func Scopes(h Hierarchy) Policy {
	return PolicyFunc(func(_ context.Context, p *Principal, op *Operation) Decision {
		if len(op.Scopes) == 0 {
			return Decision{Effect: Allow}
		}
		var granted []string
		if p != nil {
			granted = p.Scopes
		}
		if h.Missing(granted, op.Scopes) != nil {
			return Decision{Effect: NeedScopes, Scopes: op.Scopes, Rule: RuleScopes}
		}
		return Decision{Effect: Allow, Rule: RuleScopes}
	})
}
