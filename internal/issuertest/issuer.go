// Package issuertest has an authorization server for tests: its metadata and its keys. Tests sign its
// tokens. It is for tests only.
package issuertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Resource is what good tokens are for.
const Resource = "https://mcp.example.com/mcp"

// KeyID is the id of the first key of an issuer.
const KeyID = "ec"

// An Object is a JSON object.
type Object = map[string]any

// An Issuer is an authorization server on a port of this machine. It is safe for concurrent use.
type Issuer struct {
	// URL is the issuer's name.
	URL string
	// Key is its first key.
	Key *ecdsa.PrivateKey

	srv *httptest.Server

	mu      sync.Mutex // guards the rest
	keys    []any      // JWKs
	instead http.HandlerFunc
	asked   map[string]int
}

// New starts an issuer, which ends with the test.
func New(t testing.TB) *Issuer {
	t.Helper()
	i := &Issuer{asked: map[string]int{}}
	i.Key = i.Rotate(KeyID)
	i.srv = httptest.NewUnstartedServer(i)
	if l := listen(); l != nil {
		i.srv.Listener.Close()
		i.srv.Listener = l
	}
	i.srv.Start()
	t.Cleanup(i.srv.Close)
	i.URL = i.srv.URL
	return i
}

// started are the issuers of this process.
var started atomic.Uint32

// listen listens on an address that nobody else uses, so that it refuses connections once the server has ended.
// It returns nil where a machine has no other address of its own than 127.0.0.1.
func listen() net.Listener {
	pid, n := os.Getpid(), started.Add(1)
	l, _ := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 192+pid/256%63, pid%256, 1+n%254))
	return l
}

// Stop ends the server. Its address refuses connections then.
func (i *Issuer) Stop() { i.srv.Close() }

// The paths of an issuer.
const (
	MetadataPath = "/.well-known/oauth-authorization-server" // RFC 8414
	KeysPath     = "/keys"
)

// ServeHTTP answers with the metadata and the keys.
func (i *Issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	i.asked[r.URL.Path]++
	instead := i.instead
	i.mu.Unlock()
	if instead != nil {
		instead(w, r)
		return
	}
	i.Serve(w, r)
}

// Serve answers as an honest issuer.
func (i *Issuer) Serve(w http.ResponseWriter, r *http.Request) {
	var document Object
	switch r.URL.Path {
	case MetadataPath:
		document = Object{"issuer": i.URL, "jwks_uri": i.URL + KeysPath, "response_types_supported": []string{"code"}}
	case KeysPath:
		i.mu.Lock()
		document = Object{"keys": append([]any{}, i.keys...)}
		i.mu.Unlock()
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(document) // an error is that of the connection
}

// Answer lets a function answer instead of the issuer; nil ends that. It returns what answered before.
func (i *Issuer) Answer(instead http.HandlerFunc) (before http.HandlerFunc) {
	i.mu.Lock()
	defer i.mu.Unlock()
	before, i.instead = i.instead, instead
	return before
}

// Asked returns how often a path was asked for.
func (i *Issuer) Asked(path string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.asked[path]
}

// Publish adds a public key, as a JWK.
func (i *Issuer) Publish(key Object) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = append(i.keys, key)
}

// Rotate gives the issuer a further key.
func (i *Issuer) Rotate(id string) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err) // the system has no randomness
	}
	i.Publish(PublicEC(id, key))
	return key
}

// Token returns a token of the first key. Members of changes replace those of a good token; those that
// are nil are left out.
func (i *Issuer) Token(changes Object) string { return i.Sign(nil, changes) }

// Sign is Token with changes to the header, too.
func (i *Issuer) Sign(header, claims Object) string {
	return Signed(jwt.SigningMethodES256, i.Key, header, i.Claims(claims))
}

// Claims are those of a good token with changes.
func (i *Issuer) Claims(changes Object) Object {
	now := time.Now()
	return changed(Object{
		"iss": i.URL, "sub": "ann", "aud": Resource, "client_id": "desk", "scope": "demo:read", "jti": rand.Text(),
		"iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	}, changes)
}

// Signed returns a token. Its header is that of a good one with changes.
func Signed(method jwt.SigningMethod, key any, header, claims Object) string {
	token := jwt.NewWithClaims(method, jwt.MapClaims(claims))
	token.Header = changed(Object{"alg": method.Alg(), "typ": "at+jwt", "kid": KeyID}, header)
	text, err := token.SignedString(key)
	if err != nil {
		panic(err) // the keys fit
	}
	return text
}

// changed returns an object with changes; those that are nil remove a member.
func changed(base, changes Object) Object {
	maps.Copy(base, changes)
	maps.DeleteFunc(base, func(_ string, value any) bool { return value == nil })
	return base
}

// PublicEC returns the JWK of a key.
func PublicEC(id string, key *ecdsa.PrivateKey) Object {
	point, err := key.PublicKey.Bytes() // 4, x, y
	if err != nil {
		panic(err) // the curve is one of the standard library
	}
	b64 := base64.RawURLEncoding.EncodeToString
	return Object{"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": id, "x": b64(point[1:33]), "y": b64(point[33:])}
}
