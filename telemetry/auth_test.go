package telemetry

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/internal/session"
)

// A countingAuthenticator admits everybody, and has counted something.
type countingAuthenticator struct{}

func (countingAuthenticator) Authenticate(context.Context, *auth.Caller) (*auth.Principal, error) {
	return nil, nil
}

func (countingAuthenticator) Stats() auth.Stats {
	var took auth.LatencyRecorder
	took.Record(time.Microsecond)
	took.Record(30 * time.Microsecond)
	took.Record(time.Minute)
	return auth.Stats{
		Verifications: []auth.VerificationStats{
			{Method: auth.MethodCache, Accepted: 7}, {Method: auth.MethodJWT, Accepted: 1, Refused: 2, Unavailable: 3, Took: took.Latency()},
		},
		Issuers: []auth.IssuerStats{
			{Issuer: "https://a.example", Keys: 2, Fetched: time.Now().Add(-time.Minute), Refreshes: map[auth.Refresh]uint64{{Cause: "first", Result: "changed"}: 4}},
			{Issuer: "https://b.example"},
		},
		CachedTokens: 5, Evicted: 6, LimitsReached: map[string]uint64{"max_token_bytes": 8},
	}
}

// What an authenticator counts is in the metrics of the server, without any setting. Its counters stay
// when the server goes.
func TestAuthenticatorCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel, err := New()
		require.NoError(t, err)
		core := session.New(session.Config{Authenticator: countingAuthenticator{}})
		remove := tel.AddSource(sourceOf(core))
		check := func() {
			families := gather(t, tel.Registry())
			require.EqualValues(t, 7, value(families, MetricAuthVerifications, "method", "cache", "result", "accepted"))
			require.EqualValues(t, 3, value(families, MetricAuthVerifications, "method", "jwt", "result", "unavailable"))
			require.EqualValues(t, 4, value(families, MetricAuthKeyRefreshes, "issuer", "https://a.example", "cause", "first", "result", "changed"))
			require.EqualValues(t, 6, value(families, MetricAuthEvictions))
			require.EqualValues(t, 8, value(families, MetricLimitReached, "limit", "max_token_bytes"))
			histograms := families[MetricAuthVerification].GetMetric()
			require.Len(t, histograms, 1)
			h := histograms[0].GetHistogram()
			require.EqualValues(t, 3, h.GetSampleCount())
			require.InDelta(t, 60.000031, h.GetSampleSum(), 1e-6)
			require.Len(t, h.GetBucket(), len(auth.LatencyBounds))
			require.EqualValues(t, 1, h.GetBucket()[0].GetCumulativeCount())
			require.EqualValues(t, 2, h.GetBucket()[1].GetCumulativeCount())
			require.EqualValues(t, 2, h.GetBucket()[len(auth.LatencyBounds)-1].GetCumulativeCount())
		}
		check()
		families := gather(t, tel.Registry())
		require.EqualValues(t, 2, value(families, MetricAuthKeys, "issuer", "https://a.example"))
		require.EqualValues(t, 60, value(families, MetricAuthKeysAge, "issuer", "https://a.example"))
		require.EqualValues(t, 0, value(families, MetricAuthKeys, "issuer", "https://b.example"))
		require.EqualValues(t, -1, value(families, MetricAuthKeysAge, "issuer", "https://b.example"))
		require.EqualValues(t, 5, value(families, MetricAuthCachedTokens))
		remove()
		check()
	})
}

// A policySource is a [Source] whose file of rules has a mistake.
type policySource struct{}

func (policySource) Snapshot() *Snapshot {
	s := &Snapshot{At: time.Now()}
	s.Policy.Loaded, s.Policy.Failed, s.Policy.Stale = 3, 2, true
	return s
}

// What became of a file of rules is in the metrics.
func TestPolicyReloads(t *testing.T) {
	tel, err := New()
	require.NoError(t, err)
	require.EqualValues(t, 0, value(gather(t, tel.Registry()), MetricPolicyStale), "there without a file")
	tel.AddSource(policySource{})
	families := gather(t, tel.Registry())
	require.EqualValues(t, 3, value(families, MetricPolicyReloads, "result", "loaded"))
	require.EqualValues(t, 2, value(families, MetricPolicyReloads, "result", "failed"))
	require.EqualValues(t, 1, value(families, MetricPolicyStale))
}

// A credentialsSource is a [Source] with a certificate, whose files have a mistake, and with tokens.
type credentialsSource struct{}

func (credentialsSource) Snapshot() *Snapshot {
	s := &Snapshot{At: time.Now()}
	s.Credentials.Stale = map[string]bool{CredentialsTLS: true, CredentialsTokens: false}
	s.Credentials.CertificateExpiry = time.Unix(1_900_000_000, 999)
	return s
}

// The metrics have what became of the files that are configured, and nothing of others.
func TestStaleCredentialsAndCertificate(t *testing.T) {
	tel, err := New()
	require.NoError(t, err)
	tel.AddSource(policySource{})
	families := gather(t, tel.Registry())
	require.Nil(t, families[MetricCredentialsStale])
	require.Nil(t, families[MetricCertificateExpiry])
	tel.AddSource(credentialsSource{})
	families = gather(t, tel.Registry())
	require.Len(t, families[MetricCredentialsStale].GetMetric(), 2)
	require.EqualValues(t, 1, value(families, MetricCredentialsStale, "kind", "tls"))
	require.EqualValues(t, 0, value(families, MetricCredentialsStale, "kind", "tokens"))
	require.EqualValues(t, 1_900_000_000, value(families, MetricCertificateExpiry))
}
