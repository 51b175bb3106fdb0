package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// resource is what tokens must be for.
const resource = "https://mcp.example.com/mcp"

// An issuer is an authorization server that only has metadata and a key: the tests sign their tokens
// themselves.
type issuer struct {
	url string
	key *ecdsa.PrivateKey
	srv *httptest.Server
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{key: key}
	i.srv = httptest.NewServer(i)
	i.url = i.srv.URL
	t.Cleanup(i.srv.Close)
	return i
}

// ServeHTTP answers with the metadata (RFC 8414) and the key.
func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	point, err := i.key.PublicKey.Bytes() // 4, x, y
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/.well-known/oauth-authorization-server":
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, i.url, i.url+"/keys")
	case "/keys":
		fmt.Fprintf(w, `{"keys":[{"kty":"EC","crv":"P-256","alg":"ES256","use":"sig","kid":"k1","x":%q,"y":%q}]}`,
			base64.RawURLEncoding.EncodeToString(point[1:33]), base64.RawURLEncoding.EncodeToString(point[33:]))
	default:
		http.NotFound(w, r)
	}
}

// token returns a token for ann with a scope. A further claim replaces one of these.
func (i *issuer) token(t *testing.T, further object) string {
	t.Helper()
	now := time.Now()
	claims := object{
		"iss": i.url, "sub": "ann", "aud": resource, "exp": now.Add(time.Hour).Unix(), "iat": now.Unix(),
		"client_id": "desk", "scope": "demo:read",
	}
	for name, value := range further {
		claims[name] = value
	}
	part := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	signed := part(object{"alg": "ES256", "typ": "at+jwt", "kid": "k1"}) + "." + part(claims)
	digest := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, i.key, digest[:])
	if err != nil {
		t.Fatal(err)
	}
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature)
}
