package oauth

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// challenges are the challenges that do not depend on the operation.
type challenges struct {
	metadata           string // URL
	initial            []string
	invalid, malformed string
	missing            *mcp.Refusal // of a request without a token
}

func newChallenges(metadata string, initial []string) challenges {
	c := challenges{metadata: metadata, initial: initial}
	c.invalid = c.words(invalidToken, invalidTokenText, initial)
	c.malformed = c.words("invalid_request", malformedText, nil)
	c.missing = &mcp.Refusal{
		Status: int(mcp.CodeUnauthorized), Reason: reasonMissing, By: refusedBy, Challenge: c.words("", "", initial),
		Err: auth.ErrNotRecognized,
	}
	return c
}

// Challenge returns the challenge of a caller without a principal (401), or of one whose token lacks
// scopes (403). scopes are all scopes that the operation needs; a caller without a principal is
// told Config.InitialScopes if there are none. It implements [auth.Challenger].
func (s *ResourceServer) Challenge(status int, scopes []string) string {
	switch status {
	case http.StatusUnauthorized:
		if len(scopes) == 0 {
			scopes = s.challenges.initial
		}
		return s.challenges.words("", "", scopes)
	case http.StatusForbidden:
		return s.challenges.words("insufficient_scope", "the operation needs scopes that the access token does not have", scopes)
	}
	return ""
}

// words writes a challenge of the scheme Bearer (RFC 6750, section 3; RFC 9728, section 5.1). code
// and description may be "". The description must have no quotes.
func (c *challenges) words(code, description string, scopes []string) string {
	var params []string
	param := func(name, value string) { params = append(params, name+`="`+value+`"`) }
	if code != "" {
		param("error", code)
		param("error_description", description)
	}
	if len(scopes) > 0 {
		tokens := make([]string, len(scopes))
		for i, scope := range scopes {
			tokens[i] = scopeToken(scope)
		}
		param("scope", strings.Join(tokens, " "))
	}
	param("resource_metadata", c.metadata)
	return "Bearer " + strings.Join(params, ", ")
}

// isScope reports whether a text is a scope-token (RFC 6749, section 3.3).
func isScope(text string) bool {
	for i := range len(text) {
		if !isScopeByte(text[i]) {
			return false
		}
	}
	return text != ""
}

func isScopeByte(c byte) bool { return c > ' ' && c < 0x7f && c != '"' && c != '\\' }

// scopeToken returns a scope with all bytes escaped that would end it or the header. A function of
// the URI that the caller sends may have made it.
func scopeToken(scope string) string {
	if isScope(scope) {
		return scope
	}
	var b strings.Builder
	for i := range len(scope) {
		if c := scope[i]; isScopeByte(c) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
