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

// Kinds of files with credentials: the values of the label kind of [MetricCredentialsStale].
const (
	CredentialsTLS        = "tls"         // the certificate with its key, and the authorities of client certificates
	CredentialsAdminToken = "admin_token" // the tokens of operators
	CredentialsTokens     = "tokens"      // the static tokens of callers
)

// credentialsKind is the label with these kinds. Only those that are configured have a series.
func credentialsKind() Label {
	return later(closed("kind", "vitrine.credentials.kind", []string{CredentialsTLS, CredentialsAdminToken, CredentialsTokens}))
}

// authMethod is the label with the way in which a token is verified.
func authMethod() Label {
	return closed("method", "vitrine.auth.method", []string{auth.MethodCache, auth.MethodJWT, auth.MethodIntrospection})
}

// issuer is the label with the issuer of tokens.
func issuer() Label {
	return opened("issuer", "vitrine.auth.issuer", "the issuers of the configuration")
}

// later returns a label without series from the start. They begin when a source has something to say.
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

func readStaleCredentials(s *Snapshot, r reading) {
	for kind, stale := range s.Credentials.Stale {
		file := r.with(kind)
		if file.max(0); stale {
			file.max(1)
		}
	}
}

func readCertificateExpiry(s *Snapshot, r reading) {
	if expiry := s.Credentials.CertificateExpiry; !expiry.IsZero() {
		r.max(float64(expiry.Unix()))
	}
}
