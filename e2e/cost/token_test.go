//go:build unix

package cost

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth/oauth"
)

// The issuer of access tokens, and the resource that they are for.
const (
	issuerName = "https://issuer.example"
	resource   = "https://mcp.example/mcp"
)

// issuerKey signs the tokens of the targets that have a signature.
var issuerKey = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, ed25519.SeedSize))

// An issuer answers what an authorization server is asked for.
type issuer struct{}

// RoundTrip implements http.RoundTripper.
func (issuer) RoundTrip(r *http.Request) (*http.Response, error) {
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r}
	document := ""
	switch r.URL.Path {
	case "/.well-known/oauth-authorization-server":
		document = fmt.Sprintf(`{"issuer":%q,"jwks_uri":%q}`, issuerName, issuerName+"/keys")
	case "/keys":
		public := issuerKey.Public().(ed25519.PublicKey)
		document = fmt.Sprintf(`{"keys":[{"kty":"OKP","crv":"Ed25519","alg":"EdDSA","use":"sig","kid":"k","x":%q}]}`, base64.RawURLEncoding.EncodeToString(public))
	default:
		resp.StatusCode = http.StatusNotFound
	}
	resp.Body = io.NopCloser(strings.NewReader(document))
	return resp, nil
}

// newResourceServer returns what verifies access tokens. It remembers none, so that each request costs the same.
func newResourceServer(tb testing.TB) *oauth.ResourceServer {
	rs, err := oauth.New(oauth.Config{Issuers: []string{issuerName}, Resource: resource, CacheTTL: -1, Client: &http.Client{Transport: issuer{}}})
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, rs.Close()) })
	return rs
}

// isJWT tells access tokens from those that are the names of principals.
func isJWT(authorization string) bool { return strings.Count(authorization, ".") == 2 }

// unsigned returns a token with a header and claims in JSON, without its signature.
func unsigned(header, claims string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString([]byte(claims))
}

// sign returns the token with its signature.
func sign(text string) string {
	return text + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(issuerKey, []byte(text)))
}

// forge returns the token with a signature that is not the issuer's.
func forge(text string) string {
	return text + "." + base64.RawURLEncoding.EncodeToString(make([]byte, ed25519.SignatureSize))
}

const tokenHeader = `{"alg":"EdDSA","kid":"k"}`

// claims returns good claims, and more as the end of their JSON.
func claims(more string) string {
	return fmt.Sprintf(`{"iss":%q,"aud":%q,"sub":"cost","exp":4102444800%s}`, issuerName, resource, more)
}

// accessTokenTargets are about access tokens of other people than the issuer: all that is read before a signature is verified.
func accessTokenTargets() (all []target) {
	add := func(name string, seeds []string, token func(payload string) string) {
		all = append(all, target{name, true, seeds, maxTokenJSON, func(payload string) request {
			r := modern("tools/call", "echo", `"name":"echo","arguments":{"text":"x"}`)
			r.header["Authorization"] = "Bearer " + token(payload)
			return r
		}})
	}
	values := []string{`{"a":{"a":{"a":1}}}`, deep, `[[[1]],[[2]]]`, `["a","b","c"]`, `[1e300,7e-320]`, `"a b c"`}
	add("header of a token", append(values, tokenHeader), func(payload string) string { return forge(unsigned(payload, claims(""))) })
	add("member of a token's header", values, func(payload string) string {
		return forge(unsigned(tokenHeader[:len(tokenHeader)-1]+`,"x":`+payload+`}`, claims("")))
	})
	add("claims of a token", append(values, claims("")), func(payload string) string { return forge(unsigned(tokenHeader, payload)) })
	add("claim of a token", values, func(payload string) string { return forge(unsigned(tokenHeader, claims(`,"x":`+payload))) })
	return all
}

// maxTokenJSON is the size of a payload with which a token is not longer than it may be.
const maxTokenJSON = 11 << 10

// A good token passes, and one with another signature is read up to that.
func TestTokensAreVerified(t *testing.T) {
	m := newMeter(t)
	good := unsigned(tokenHeader, claims(""))
	for token, status := range map[string]int{sign(good): http.StatusOK, forge(good): http.StatusUnauthorized} {
		r := modern("tools/call", "echo", `"name":"echo","arguments":{"text":"x"}`)
		r.header["Authorization"] = "Bearer " + token
		m.serve(r)
		require.Equal(t, status, m.status)
	}
}
