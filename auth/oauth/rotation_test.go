package oauth_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth/oauth"
)

// A cache in front of the issuer answers once with the keys from before a rotation. Tokens with the new key are good again at
// once: the keys are fetched once more before the server believes that the key is gone.
func TestStaleAnswerDuringARotation(t *testing.T) {
	for name, early := range map[string]bool{"a new key": false, "a key that was asked for too early": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				key, next := newSigner("k1", "ES256"), newSigner("k2", "ES256")
				issuer := newIssuer(key)
				rs := newServer(t, issuer, nil)
				token := bearer(next.sign(goodClaims(), nil))
				if early {
					require.NoError(t, rs.Check(t.Context()))
					require.Equal(t, "token_signature", refusedFor(t, rs, token).Reason)
				}
				issuer.publish(key, next)
				require.NoError(t, rs.Check(t.Context()))
				admitted(t, rs, token)
				stale := 1
				issuer.answer(func(w http.ResponseWriter, r *http.Request) bool {
					if r.URL.Path != "/keys" || stale == 0 {
						return false
					}
					stale--
					_, _ = w.Write([]byte(`{"keys":[` + jwk(key) + `]}`))
					return true
				})
				require.NoError(t, rs.Check(t.Context()))
				require.Equal(t, 1, rs.Stats().Issuers[0].Keys)
				fetches := issuer.fetches("/keys")
				admitted(t, rs, token)
				require.Equal(t, fetches+1, issuer.fetches("/keys"))
			})
		})
	}
}

// While clients go on with tokens of a key that is gone, the keys are fetched once in 2 × MinRefreshInterval because of it.
func TestWithdrawnKeysAreAskedForNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, next := newSigner("k1", "ES256"), newSigner("k2", "ES256")
		issuer := newIssuer(key, next)
		rs := newServer(t, issuer, func(c *oauth.Config) { c.MinRefreshInterval = 5 * time.Second })
		admitted(t, rs, bearer(key.sign(goodClaims(), nil)))
		issuer.publish(next)
		require.NoError(t, rs.Check(t.Context()))
		fetches := issuer.fetches("/keys")
		for n := range 290 {
			require.Equal(t, "token_signature", refusedFor(t, rs, bearer(key.sign(with(goodClaims(), jwt.MapClaims{"jti": n}), nil))).Reason)
			time.Sleep(100 * time.Millisecond)
		}
		require.Equal(t, fetches+3, issuer.fetches("/keys"), "in 29 s")
	})
}

// Two caches in front of the issuer have different keys and answer in turn. The tokens of the keys that come and go do not
// cause a fetch each.
func TestCachesThatDisagreeAreNotAskedForEachToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, next := newSigner("k1", "ES256"), newSigner("k2", "ES256")
		issuer := newIssuer(key)
		rs := newServer(t, issuer, func(c *oauth.Config) { c.MinRefreshInterval = 5 * time.Second })
		require.NoError(t, rs.Check(t.Context()))
		answers := 0
		issuer.answer(func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/keys" {
				return false
			}
			answers++
			_, _ = w.Write([]byte(`{"keys":[` + jwk([]*signer{key, next}[answers%2]) + `]}`))
			return true
		})
		for n := range 600 {
			for _, k := range []*signer{key, next} {
				_, _ = rs.Authenticate(t.Context(), bearer(k.sign(with(goodClaims(), jwt.MapClaims{"jti": n}), nil)))
			}
			time.Sleep(100 * time.Millisecond)
		}
		require.Less(t, answers, 40, "in a minute")
	})
}
