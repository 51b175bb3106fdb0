package oauth_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/auth/oauth"
	"github.com/vitrine-mcp/vitrine/mcp"
)

const (
	issuerName = "https://login.example.com"
	resource   = "https://mcp.example.com/mcp"
)

// A signer is a key pair of an issuer.
type signer struct {
	id      string
	method  jwt.SigningMethod
	private crypto.Signer
	public  map[string]any // JWK
}

var b64 = base64.RawURLEncoding.EncodeToString

// newSigner makes a key pair for an algorithm.
func newSigner(id, alg string) *signer {
	s := &signer{id: id, method: jwt.GetSigningMethod(alg), public: map[string]any{"kid": id, "use": "sig", "alg": alg}}
	switch {
	case strings.HasPrefix(alg, "ES"):
		curve := map[string]elliptic.Curve{"ES256": elliptic.P256(), "ES384": elliptic.P384(), "ES512": elliptic.P521()}[alg]
		k, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			panic(err)
		}
		point, err := k.PublicKey.Bytes()
		if err != nil {
			panic(err)
		}
		half := (len(point) - 1) / 2
		maps.Copy(s.public, map[string]any{"kty": "EC", "crv": curve.Params().Name, "x": b64(point[1 : 1+half]), "y": b64(point[1+half:])})
		s.private = k
	case alg == "EdDSA":
		public, k, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			panic(err)
		}
		maps.Copy(s.public, map[string]any{"kty": "OKP", "crv": "Ed25519", "x": b64(public)})
		s.private = k
	default:
		k := rsaKey()
		maps.Copy(s.public, map[string]any{"kty": "RSA", "n": b64(k.N.Bytes()), "e": b64(big.NewInt(int64(k.E)).Bytes())})
		s.private = k
	}
	return s
}

// rsaKey is made once, because that takes long.
var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

// jwk returns the public key as JSON.
func jwk(s *signer) string {
	text, err := json.Marshal(s.public)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// sign makes a token. The header has the members of more, too; nil removes one.
func (s *signer) sign(claims jwt.MapClaims, more map[string]any) string {
	t := jwt.NewWithClaims(s.method, claims)
	t.Header["kid"], t.Header["typ"] = s.id, "at+jwt"
	for name, value := range more {
		if t.Header[name] = value; value == nil {
			delete(t.Header, name)
		}
	}
	token, err := t.SignedString(s.private)
	if err != nil {
		panic(err)
	}
	return token
}

// with returns claims with some changed; nil removes one.
func with(claims jwt.MapClaims, changes jwt.MapClaims) jwt.MapClaims {
	c := maps.Clone(claims)
	for name, value := range changes {
		if c[name] = value; value == nil {
			delete(c, name)
		}
	}
	return c
}

// goodClaims returns the claims of a token that is accepted, for ten minutes from now.
func goodClaims() jwt.MapClaims {
	return jwt.MapClaims{
		"iss": issuerName, "sub": "ann", "aud": resource, "client_id": "editor", "scope": "demo:read demo:write",
		"iat": time.Now().Unix(), "exp": time.Now().Add(10 * time.Minute).Unix(),
	}
}

// A fakeIssuer is an authorization server. It is an http.RoundTripper: no socket is opened.
type fakeIssuer struct {
	name string

	mu      sync.Mutex // guards the rest
	keys    []any      // JWKs
	tokens  map[string]map[string]any
	asked   map[string]int                                         // requests, by path
	instead func(w http.ResponseWriter, r *http.Request) (ok bool) // answers instead, or nil
	down    bool
}

func newIssuer(keys ...*signer) *fakeIssuer {
	f := &fakeIssuer{name: issuerName, asked: map[string]int{}, tokens: map[string]map[string]any{}}
	f.publish(keys...)
	return f
}

// publish makes the keys those of the issuer.
func (f *fakeIssuer) publish(keys ...*signer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keys = []any{}
	for _, k := range keys {
		f.keys = append(f.keys, k.public)
	}
}

// answer lets a function answer requests; false is what the issuer answers anyway.
func (f *fakeIssuer) answer(with func(http.ResponseWriter, *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.instead = with
}

func (f *fakeIssuer) setDown(down bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = down
}

// fetches returns how often the path was asked for.
func (f *fakeIssuer) fetches(path string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[path]
}

// requests returns how often anything was asked for.
func (f *fakeIssuer) requests() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, count := range f.asked {
		n += count
	}
	return n
}

func (f *fakeIssuer) client() *http.Client { return &http.Client{Transport: f} }

// RoundTrip implements http.RoundTripper.
func (f *fakeIssuer) RoundTrip(r *http.Request) (*http.Response, error) {
	f.mu.Lock()
	f.asked[r.URL.Path]++
	down, instead := f.down, f.instead
	f.mu.Unlock()
	if down {
		return nil, errors.New("connection refused")
	}
	w := httptest.NewRecorder()
	if instead == nil || !instead(w, r) {
		f.serve(w, r)
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

func (f *fakeIssuer) serve(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var answer any
	switch r.URL.Path {
	case "/.well-known/oauth-authorization-server":
		answer = map[string]any{"issuer": f.name, "jwks_uri": f.name + "/keys", "introspection_endpoint": f.name + "/introspect"}
	case "/keys":
		answer = map[string]any{"keys": f.keys}
	case "/introspect":
		if id, secret, _ := r.BasicAuth(); id != "vitrine" || secret != "s%26cret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		answer = map[string]any{"active": false}
		if known := f.tokens[r.FormValue("token")]; known != nil {
			answer = known
		}
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// newServer returns a resource server that trusts the issuer. change may be nil.
func newServer(t testing.TB, f *fakeIssuer, change func(*oauth.Config)) *oauth.ResourceServer {
	t.Helper()
	cfg := oauth.Config{
		Issuers: []string{f.name}, Resource: resource, Scopes: []string{"demo:read", "demo:write"}, Client: f.client(),
	}
	if change != nil {
		change(&cfg)
	}
	rs, err := oauth.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rs.Close()) })
	return rs
}

// bearer is a caller over HTTP with a token.
func bearer(token string) *auth.Caller {
	return &auth.Caller{Transport: "http", RemoteAddr: "192.0.2.1:4000", Header: http.Header{"Authorization": {"Bearer " + token}}}
}

// refusedFor returns the refusal of a caller, who must be refused.
func refusedFor(t testing.TB, rs *oauth.ResourceServer, caller *auth.Caller) *mcp.Refusal {
	t.Helper()
	p, err := rs.Authenticate(context.Background(), caller)
	require.Nil(t, p)
	r, ok := mcp.AsRefusal(err)
	require.True(t, ok, "%v", err)
	require.Equal(t, "oauth", r.By)
	return r
}

// admitted returns the principal of a caller, who must be admitted.
func admitted(t testing.TB, rs *oauth.ResourceServer, caller *auth.Caller) *auth.Principal {
	t.Helper()
	p, err := rs.Authenticate(context.Background(), caller)
	require.NoError(t, err)
	require.NotNil(t, p)
	return p
}
