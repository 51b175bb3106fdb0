package telemetry

import "github.com/vitrine-mcp/vitrine/auth"

// Values of the label result of [MetricAuthVerifications].
const (
	authAccepted    = "accepted"
	authRefused     = "refused"
	authUnavailable = "unavailable" // the issuer could not be asked
)

// Values of the label result of [MetricPolicyReloads] and [MetricStateKeysReloads].
const (
	fileLoaded = "loaded"
	fileFailed = "failed"
)

// authMethod is the label with the way in which a token is verified.
func authMethod() Label {
	return closed("method", "vitrine.auth.method", []string{auth.MethodCache, auth.MethodJWT, auth.MethodIntrospection})
}

// issuer is the label with the issuer of tokens.
func issuer() Label {
	return opened("issuer", "vitrine.auth.issuer", "the issuers of the configuration")
}

// later returns a label without series from the start: only servers with an authenticator that
// counts have any.
func later(l Label) Label {
	l.first = []string{}
	return l
}

// authLimits are the limits of auth/oauth.
func authLimits() []string {
	return []string{
		"max_token_bytes", "max_token_cache_bytes", "max_auth_failures", "max_auth_addresses", "max_introspections",
		"max_key_waiters", "max_issuer_bytes", "max_issuer_keys",
	}
}

// authBuckets are the bounds of what authenticators record.
func authBuckets() []float64 {
	var bounds []float64
	for _, b := range auth.LatencyBounds {
		bounds = append(bounds, b.Seconds())
	}
	return bounds
}

func readKeyRefreshes(s *Snapshot, r reading) {
	for _, i := range s.Auth.Issuers {
		for refresh, n := range i.Refreshes {
			r.with(i.Issuer, refresh.Cause, refresh.Result).add(n)
		}
	}
}
