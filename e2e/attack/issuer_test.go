package attack

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// resource is what tokens must be for.
const resource = "https://mcp.example.com/mcp"

// object is a JSON object.
type object = map[string]any

// An issuer is an authorization server with two keys, "ec" and "rsa". The tests sign its tokens
// themselves.
type issuer struct {
	url   string
	ec    *ecdsa.PrivateKey
	rsa   *rsa.PrivateKey
	asked atomic.Int64 // how often its keys were fetched

	mu     sync.Mutex
	issued map[string]string // guarded by mu: good tokens by subject
	news   []any             // guarded by mu: keys that it has got later
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{issued: map[string]string{}}
	var err error
	if i.ec, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	if i.rsa, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(i)
	t.Cleanup(srv.Close)
	i.url = srv.URL
	return i
}

// ServeHTTP answers with the metadata (RFC 8414) and the keys.
func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var document object
	switch r.URL.Path {
	case "/.well-known/oauth-authorization-server":
		document = object{"issuer": i.url, "jwks_uri": i.url + "/keys"}
	case "/keys":
		i.asked.Add(1)
		i.mu.Lock()
		document = object{"keys": append([]any{publicEC("ec", i.ec), publicRSA("rsa", i.rsa)}, i.news...)}
		i.mu.Unlock()
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(document) // an error is that of the connection
}

// rotate gives the issuer a further key.
func (i *issuer) rotate(t *testing.T, id string) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.news = append(i.news, publicEC(id, key))
	return key
}

// settings make a server accept the tokens of the issuer.
func (i *issuer) settings() []string {
	return []string{"--oauth-issuer", i.url, "--oauth-resource", resource, "--oauth-scopes", "demo:read,demo:write"}
}

// bearer returns a good token of a subject, the same one each time.
func (i *issuer) bearer(subject string) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.issued[subject] == "" {
		i.issued[subject] = i.sign(nil, object{"sub": subject})
	}
	return i.issued[subject]
}

// sign returns a token that is signed with the key "ec". Members of header and claims replace those of
// a good token; those that are nil are left out.
func (i *issuer) sign(header, claims object) string {
	return signed(jwt.SigningMethodES256, i.ec, header, i.claims(claims))
}

// claims are those of a good token, except for those that a test changes.
func (i *issuer) claims(changes object) object {
	now := time.Now()
	return changed(object{
		"iss": i.url, "sub": "ann", "aud": resource, "client_id": "desk", "scope": "demo:read", "jti": rand.Text(),
		"iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	}, changes)
}

// signed returns a token. Its header is that of a good one, except for what a test changes.
func signed(method jwt.SigningMethod, key any, header, claims object) string {
	token := jwt.NewWithClaims(method, jwt.MapClaims(claims))
	token.Header = changed(object{"alg": method.Alg(), "typ": "at+jwt", "kid": "ec"}, header)
	text, err := token.SignedString(key)
	if err != nil {
		panic(err) // the keys fit
	}
	return text
}

// changed returns an object with changes; those that are nil remove a member.
func changed(base, changes object) object {
	maps.Copy(base, changes)
	maps.DeleteFunc(base, func(_ string, value any) bool { return value == nil })
	return base
}

// encoded is a part of a token.
func encoded(part []byte) string { return base64.RawURLEncoding.EncodeToString(part) }

// resigned replaces the signature of a token.
func resigned(token string, signature []byte) string {
	return token[:strings.LastIndexByte(token, '.')+1] + encoded(signature)
}

func publicEC(id string, key *ecdsa.PrivateKey) object {
	point, err := key.PublicKey.Bytes() // 4, x, y
	if err != nil {
		panic(err) // the curve is one of the standard library
	}
	return object{"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": id, "x": encoded(point[1:33]), "y": encoded(point[33:])}
}

func publicRSA(id string, key *rsa.PrivateKey) object {
	return object{
		"kty": "RSA", "alg": "RS256", "use": "sig", "kid": id,
		"n": encoded(key.N.Bytes()), "e": encoded(big.NewInt(int64(key.E)).Bytes()),
	}
}

// hmacWith signs a token with a text as a secret, such as a public key that everybody knows.
func hmacWith(secret []byte, header, claims object) string {
	return signed(jwt.SigningMethodHS256, secret, header, claims)
}

// derSignature is the signature of a token in the form of certificates instead of that of tokens.
func derSignature(token string, key *ecdsa.PrivateKey) []byte {
	text, _, _ := strings.Cut(token, ".")
	rest := token[len(text)+1:]
	payload, _, _ := strings.Cut(rest, ".")
	h := crypto.SHA256.New()
	h.Write([]byte(text + "." + payload))
	signature, err := ecdsa.SignASN1(rand.Reader, key, h.Sum(nil))
	if err != nil {
		panic(err) // the key fits
	}
	return signature
}
