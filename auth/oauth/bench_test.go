package oauth_test

import (
	"context"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth/oauth"
)

func BenchmarkAuthenticate(b *testing.B) {
	for _, alg := range []string{"ES256", "RS256", "EdDSA"} {
		key := newSigner("k1", alg)
		claims := with(goodClaims(), jwt.MapClaims{"jti": "5f0c2f0e-5a5e-4ac0-b8a4-4c2a0f4f5a0e", "email": "ann@example.com", "groups": []string{"dev", "ops"}})
		caller := bearer(key.sign(claims, nil))
		for name, change := range map[string]func(*oauth.Config){
			"cached": nil,
			"new":    func(c *oauth.Config) { c.CacheTTL = -1 },
		} {
			rs := newServer(b, newIssuer(key), change)
			admitted(b, rs, caller)
			b.Run(alg+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := rs.Authenticate(context.Background(), caller); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
	key := newSigner("k1", "ES256")
	rs := newServer(b, newIssuer(key), nil)
	caller := bearer("")
	caller.Header["Authorization"] = nil
	b.Run("without token", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := rs.Authenticate(context.Background(), caller); err == nil {
				b.Fatal("admitted")
			}
		}
	})
	require.Zero(b, cacheHits(rs))
}
