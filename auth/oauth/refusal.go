package oauth

import (
	"time"

	"github.com/vitrine-mcp/vitrine/mcp"
)

// The reasons of refusals. They become labels of metrics.
const (
	reasonMissing     = "token_missing"
	reasonMalformed   = "token_malformed"
	reasonExpired     = "token_expired"
	reasonNotYet      = "token_not_yet_valid"
	reasonSignature   = "token_signature"
	reasonIssuer      = "token_issuer"
	reasonAudience    = "token_audience"
	reasonType        = "token_type"
	reasonAlgorithm   = "token_algorithm"
	reasonInactive    = "token_inactive"
	reasonClaims      = "token_claims"
	reasonRequest     = "authorization_malformed"
	reasonRateLimited = "auth_rate_limited"
	reasonUnavailable = "issuer_unavailable"
)

const (
	// refusedBy names this package on refusals.
	refusedBy = "oauth"
	// invalidToken is all that the caller learns about a bad token.
	invalidToken     = "invalid_token"
	invalidTokenText = "the access token is not valid for this resource"
	malformedText    = "the request must have one Authorization header with the scheme Bearer and a token"
)

// A refusal is a [mcp.Refusal] of this package.
type refusal mcp.Refusal

// limit sets the limit that was reached.
func (r *refusal) limit(name string) *mcp.Refusal {
	r.Limit = name
	return (*mcp.Refusal)(r)
}

// refuse refuses a token. The caller learns nothing of the reason and the error.
func (s *ResourceServer) refuse(reason string, err error) *refusal {
	return &refusal{
		Status: int(mcp.CodeUnauthorized), Reason: reason, PublicReason: invalidToken, By: refusedBy,
		Message: invalidTokenText, Challenge: s.challenges.invalid, Err: err,
	}
}

// malformed refuses a request whose credentials cannot be read.
func (s *ResourceServer) malformed(err error) *mcp.Refusal {
	return &mcp.Refusal{
		Status: int(mcp.CodeBadRequest), Reason: reasonRequest, By: refusedBy,
		Message: malformedText, Challenge: s.challenges.malformed, Err: err,
	}
}

// unavailable refuses a token that cannot be judged now.
func unavailable(retry time.Duration, err error) *refusal {
	return &refusal{
		Status: int(mcp.CodeUnavailable), Reason: reasonUnavailable, By: refusedBy, RetryAfter: retry, Err: err,
		Message: "the access token cannot be verified now",
	}
}

// rateLimited refuses a caller with too many failures.
func rateLimited(retry time.Duration) *refusal {
	return &refusal{
		Status: int(mcp.CodeTooManyRequests), Reason: reasonRateLimited, By: refusedBy, Limit: limitFailures, RetryAfter: retry,
		Message: "there were too many access tokens that are not valid",
	}
}
