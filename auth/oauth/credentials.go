package oauth

import (
	"errors"
	"strings"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/mcp"
)

var (
	errSeveralHeaders = errors.New("there are several Authorization headers")
	errNoToken        = errors.New("there is no token after Bearer, or it has characters that no token has")
	errTooLong        = errors.New("the token is longer than max_token_bytes")
)

// credentials returns the token of a caller, or "" if there is none. Tokens are looked for in the
// header Authorization only, never in the query or in a body (specification: "Access Token Usage").
func (s *ResourceServer) credentials(caller *auth.Caller) (string, *mcp.Refusal) {
	if caller.Header == nil {
		if caller.Transport == "stdio" {
			return s.cfg.StdioToken, nil
		}
		return "", nil
	}
	values := caller.Header["Authorization"]
	switch len(values) {
	case 0:
		return "", nil
	case 1:
	default:
		return "", s.malformed(errSeveralHeaders)
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", nil // of another scheme, which cannot be looked at
	}
	if token = strings.TrimLeft(token, " "); !isToken(token) {
		return "", s.malformed(errNoToken)
	}
	return token, nil
}

// isLocal reports whether a caller is the program that has started the process.
func isLocal(caller *auth.Caller) bool {
	return caller.Transport == "stdio" || caller.Transport == "memory"
}

// isToken reports whether a text has the form of a token (RFC 6750, section 2.1: b64token).
func isToken(text string) bool {
	body := strings.TrimRight(text, "=")
	for i := range len(body) {
		if !tokenBytes[body[i]] {
			return false
		}
	}
	return body != ""
}

// tokenBytes has the bytes of tokens, without the = at their end.
var tokenBytes = func() (is [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/") {
		is[c] = true
	}
	return is
}()
