package oauth_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/auth/oauth"
)

func cacheHits(rs *oauth.ResourceServer) uint64 { return rs.Stats().Verifications[0].Accepted }

// A token is remembered for a minute, and never beyond its expiry, to which ten seconds are added for clocks that differ.
func TestVerifiedTokensAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := newSigner("k1", "ES256")
		rs := newServer(t, newIssuer(key), nil)
		long := bearer(key.sign(goodClaims(), nil))
		short := bearer(key.sign(with(goodClaims(), jwt.MapClaims{"exp": time.Now().Add(10 * time.Second).Unix()}), nil))
		for _, c := range []struct {
			at, hits int
			caller   *auth.Caller
		}{
			{0, 0, long}, {0, 1, long}, {0, 1, short}, {9, 2, short}, {10, 3, short}, {19, 4, short}, {59, 5, long}, {60, 5, long}, {60, 6, long},
		} {
			time.Sleep(time.Duration(c.at)*time.Second - time.Since(start(rs)))
			admitted(t, rs, c.caller)
			require.EqualValues(t, c.hits, cacheHits(rs), "after %d s", c.at)
		}
		require.Equal(t, "token_expired", refusedFor(t, rs, short).Reason)
	})
}

// start returns when the keys were fetched, which is when the first token came.
func start(rs *oauth.ResourceServer) time.Time {
	if at := rs.Stats().Issuers[0].Fetched; !at.IsZero() {
		return at
	}
	return time.Now()
}

// The cache is bounded. What does not fit is verified again, and accepted all the same.
func TestCacheIsBounded(t *testing.T) {
	key := newSigner("k1", "EdDSA")
	rs := newServer(t, newIssuer(key), func(c *oauth.Config) { c.Limits.MaxTokenCacheBytes = 10_000 })
	for n := range 100 {
		admitted(t, rs, bearer(key.sign(with(goodClaims(), jwt.MapClaims{"jti": n}), nil)))
	}
	stats := rs.Stats()
	require.LessOrEqual(t, stats.CachedBytes, 10_000)
	require.Greater(t, stats.CachedTokens, 5)
	require.EqualValues(t, 100-stats.CachedTokens, stats.Evicted)
	require.EqualValues(t, stats.Evicted, stats.LimitsReached["max_token_cache_bytes"])
	admitted(t, rs, bearer(key.sign(with(goodClaims(), jwt.MapClaims{"x": strings.Repeat("x", 9500)}), nil)))
	require.Equal(t, stats.CachedTokens, rs.Stats().CachedTokens, "one that does not fit makes no room")

	rs = newServer(t, newIssuer(key), func(c *oauth.Config) { c.CacheTTL = -1 })
	token := bearer(key.sign(goodClaims(), nil))
	admitted(t, rs, token)
	admitted(t, rs, token)
	require.Zero(t, cacheHits(rs))
}

// What one resource server has verified says nothing to another one.
func TestCachesAreNotShared(t *testing.T) {
	key := newSigner("k1", "ES256")
	issuer := newIssuer(key)
	token := bearer(key.sign(goodClaims(), nil))
	admitted(t, newServer(t, issuer, nil), token)
	other := newServer(t, issuer, func(c *oauth.Config) { c.Resource = "https://mcp.example.com/other" })
	require.Equal(t, "token_audience", refusedFor(t, other, token).Reason)
}
