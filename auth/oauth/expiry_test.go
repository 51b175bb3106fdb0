package oauth_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth/oauth"
)

// The credentials of a principal expire when the token is not accepted any more, which is ClockSkew after its end. Streams end
// then: an earlier time would let clients open streams that end at once.
func TestPrincipalsExpireWhenTheTokenIsRefused(t *testing.T) {
	for name, token := range map[string]func(*fakeIssuer, *signer, jwt.MapClaims) string{
		"JWT": func(_ *fakeIssuer, key *signer, changes jwt.MapClaims) string {
			return key.sign(with(goodClaims(), changes), nil)
		},
		"opaque": func(issuer *fakeIssuer, _ *signer, changes jwt.MapClaims) string {
			issuer.know("opaque", changes)
			return "opaque"
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				key := newSigner("k1", "ES256")
				issuer := newIssuer(key)
				rs := newServer(t, issuer, introspecting)
				end := time.Now().Add(10 * time.Second)
				caller := bearer(token(issuer, key, jwt.MapClaims{"exp": end.Unix()}))
				admitted(t, rs, caller)
				time.Sleep(15 * time.Second) // the token has ended, and clocks may differ
				hits := cacheHits(rs)
				p := admitted(t, rs, caller)
				require.Equal(t, end.Add(10*time.Second), p.Expires.In(end.Location()))
				require.Equal(t, hits+1, cacheHits(rs), "it is remembered as long as it is accepted")
				time.Sleep(time.Until(p.Expires))
				require.Equal(t, "token_expired", refusedFor(t, rs, caller).Reason)
			})
		})
	}
}

// The end of a principal can be written down whatever its token says.
func TestPrincipalsThatHardlyExpire(t *testing.T) {
	key := newSigner("k1", "ES256")
	for name, skew := range map[string]time.Duration{"no skew": -1, "skew": 5 * time.Minute} {
		rs := newServer(t, newIssuer(key), func(c *oauth.Config) { c.ClockSkew = skew })
		caller := bearer(key.sign(with(goodClaims(), jwt.MapClaims{"exp": int64(253402300799)}), nil))
		_, err := admitted(t, rs, caller).Expires.UTC().MarshalText()
		require.NoError(t, err, name)
	}
}
