package oauth_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/auth/oauth"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// Whatever is sent as credentials, only the good token has a principal, and the refusal of any other
// tells the caller one of few things.
func FuzzToken(f *testing.F) {
	key, rsa := newSigner("k1", "ES256"), newSigner("r1", "RS256")
	rs := newServer(f, newIssuer(key), func(c *oauth.Config) { c.CacheTTL = -1 })
	good := key.sign(goodClaims(), nil)
	f.Add("Bearer " + good)
	for _, c := range wrongTokens(f, key, rsa) {
		f.Add("Bearer " + c.token)
	}
	f.Fuzz(func(t *testing.T, credentials string) {
		p, err := rs.Authenticate(context.Background(), &auth.Caller{Transport: "http", Header: http.Header{"Authorization": {credentials}}})
		if err == nil {
			// An ECDSA signature has several forms, and a fuzzer finds none of them.
			require.True(t, strings.HasSuffix(credentials, good), "%q has a principal", credentials)
			require.Equal(t, "ann", p.Subject)
			return
		}
		r, ok := mcp.AsRefusal(err)
		require.True(t, ok)
		require.Nil(t, p)
		told := r.RPC()
		require.Contains(t, []string{"invalid_token", "token_missing", "authorization_malformed"}, told.Data.(mcp.ErrorData).Reason)
		require.NotContains(t, r.Challenge, "\n")
	})
}

// Whatever claims an issuer signs, a principal is usable, for this resource, and has not expired.
func FuzzClaims(f *testing.F) {
	key := newSigner("k1", "EdDSA")
	rs := newServer(f, newIssuer(key), func(c *oauth.Config) { c.CacheTTL = -1 })
	f.Add([]byte(`{"iss":"https://login.example.com","sub":"ann","aud":"https://mcp.example.com/mcp","exp":99999999999,"scope":"a b","act":{"sub":"x","act":{"client_id":"y"}},"cnf":null}`))
	f.Add([]byte(`{"iss":"https://login.example.com","sub":"ann","aud":["https://mcp.example.com/mcp",""],"exp":1e11,"nbf":0.5,"scp":["a"],"x":{"y":[1,2.5,"z",null,true]}}`))
	f.Fuzz(func(t *testing.T, claims []byte) {
		signed := b64([]byte(`{"alg":"EdDSA","kid":"k1","typ":"at+jwt"}`)) + "." + b64(claims)
		signature, err := key.method.Sign(signed, key.private)
		require.NoError(t, err)
		p, err := rs.Authenticate(context.Background(), bearer(signed+"."+b64(signature)))
		if err != nil {
			_, ok := mcp.AsRefusal(err)
			require.True(t, ok)
			return
		}
		require.NoError(t, p.Check())
		require.Equal(t, issuerName, p.Issuer)
		require.False(t, p.Expires.IsZero())
		require.Less(t, p.Expires.Year(), 10_000)
	})
}

// Whatever an issuer serves as metadata, nothing is fetched that is neither https nor of this machine,
// and nothing but the issuer's own keys verifies tokens.
func FuzzIssuerMetadata(f *testing.F) {
	key := newSigner("k1", "ES256")
	token := bearer(key.sign(goodClaims(), nil))
	f.Add([]byte(`{"issuer":"https://login.example.com","jwks_uri":"https://login.example.com/keys"}`))
	f.Add([]byte(`{"issuer":"https://login.example.com","jwks_uri":"http://127.0.0.1/keys","introspection_endpoint":""}`))
	f.Add([]byte(`{"issuer":"https://evil.example.com","jwks_uri":"ftp://x"}`))
	f.Add([]byte(`{"iSsuer":"https://login.example.com","jwks_uri":"https://login.example.com/keys"}`))
	f.Fuzz(func(t *testing.T, metadata []byte) {
		issuer := newIssuer(key)
		issuer.answer(func(w http.ResponseWriter, r *http.Request) bool {
			require.True(t, r.URL.Scheme == "https" || r.URL.Scheme == "http" && strings.Contains("localhost 127. [::1]", r.URL.Hostname()[:4]), r.URL)
			if strings.HasPrefix(r.URL.Path, "/.well-known/oauth-authorization-server") {
				_, _ = w.Write(metadata)
				return true
			}
			return false
		})
		rs := newServer(t, issuer, nil)
		_ = rs.Check(context.Background())
		if _, err := rs.Authenticate(context.Background(), token); err == nil {
			var said map[string]any // by another decoder, which does not change the names in a map
			require.NoError(t, json.Unmarshal(metadata, &said))
			require.Equal(t, issuerName, said["issuer"])
		}
	})
}

// Whatever an issuer serves as keys, reading them ends, and a token of a key that is not among them
// has no principal.
func FuzzKeys(f *testing.F) {
	key, rsa, stranger := newSigner("k1", "ES256"), newSigner("r1", "RS256"), newSigner("k1", "ES256")
	token := bearer(stranger.sign(goodClaims(), nil))
	for _, k := range []*signer{key, rsa, newSigner("e1", "EdDSA"), newSigner("p1", "ES512")} {
		f.Add([]byte(`{"keys":[` + jwk(k) + `]}`))
	}
	f.Add([]byte(`{"keys":[{"kty":"oct","k":"AA"},{"kty":"RSA","n":"AQ","e":"AQ"},7,null]}`))
	f.Fuzz(func(t *testing.T, keys []byte) {
		issuer := newIssuer()
		issuer.answer(func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/keys" {
				_, _ = w.Write(keys)
				return true
			}
			return false
		})
		rs := newServer(t, issuer, nil)
		_ = rs.Check(context.Background())
		refusedFor(t, rs, token)
	})
}
