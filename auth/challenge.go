package auth

import (
	"slices"
	"strings"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// A Challenger words the challenge of a refusal, which is the value of the header WWW-Authenticate
// (RFC 9110, section 11.6.1). An [Authenticator] may implement it. The server asks it when an
// operation needs scopes that the caller does not have ([NeedScopes]).
type Challenger interface {
	// Challenge returns the challenge for the status 401 (the caller has no principal) or 403 (the
	// principal lacks scopes). scopes are all scopes that the operation needs. "" stands for no
	// challenge. It must be safe for concurrent use.
	Challenge(status int, scopes []string) string
}

// Refusal returns the refusal of an operation that needs scopes ([NeedScopes]), for a principal, which
// may be nil. It challenges the caller for all of them. c may be nil; the challenge is then that of RFC
// 6750, section 3.
func (d *Decision) Refusal(p *Principal, c Challenger) *mcp.Refusal {
	refusal := &mcp.Refusal{Status: 403, Reason: "insufficient_scope", By: d.Rule}
	if p == nil {
		refusal.Status, refusal.Reason = 401, "unauthenticated"
	}
	scopes := slices.DeleteFunc(slices.Clone(d.Scopes), func(s string) bool { return !validScope(s) })
	if len(scopes) == 0 { // no token can have what is missing
		return refusal
	}
	refusal.Message = "this needs the scopes " + strings.Join(scopes, " ")
	if c != nil {
		refusal.Challenge = c.Challenge(refusal.Status, scopes)
	} else {
		refusal.Challenge = bearerChallenge(refusal.Status, scopes)
	}
	return refusal
}

// bearerChallenge returns the challenge where no authenticator words one.
func bearerChallenge(status int, scopes []string) string {
	scope := `scope="` + strings.Join(scopes, " ") + `"`
	if status == 401 {
		return "Bearer " + scope
	}
	return `Bearer error="insufficient_scope", ` + scope
}
