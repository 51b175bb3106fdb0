package attack

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"math/big"
	"strings"
	"sync"
	"testing"

	"github.com/golang-jwt/jwt/v5"

	"github.com/vitrine-mcp/vitrine/internal/issuertest"
)

// object is a JSON object.
type object = issuertest.Object

// An issuer is an authorization server with two keys, "ec" and "rsa". The tests sign its tokens
// themselves.
type issuer struct {
	*issuertest.Issuer
	rsa *rsa.PrivateKey

	mu     sync.Mutex
	issued map[string]string // guarded by mu: good tokens by subject
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{Issuer: issuertest.New(t), issued: map[string]string{}}
	var err error
	if i.rsa, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		t.Fatal(err)
	}
	i.Publish(publicRSA("rsa", i.rsa))
	return i
}

// settings make a server accept the tokens of the issuer.
func (i *issuer) settings() []string {
	return []string{"--oauth-issuer", i.URL, "--oauth-resource", issuertest.Resource, "--oauth-scopes", "demo:read,demo:write"}
}

// bearer returns a good token of a subject, the same one each time.
func (i *issuer) bearer(subject string) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.issued[subject] == "" {
		i.issued[subject] = i.Token(object{"sub": subject})
	}
	return i.issued[subject]
}

// encoded is a part of a token.
func encoded(part []byte) string { return base64.RawURLEncoding.EncodeToString(part) }

// resigned replaces the signature of a token.
func resigned(token string, signature []byte) string {
	return token[:strings.LastIndexByte(token, '.')+1] + encoded(signature)
}

func publicRSA(id string, key *rsa.PrivateKey) object {
	return object{
		"kty": "RSA", "alg": "RS256", "use": "sig", "kid": id,
		"n": encoded(key.N.Bytes()), "e": encoded(big.NewInt(int64(key.E)).Bytes()),
	}
}

// hmacWith signs a token with a text as a secret, such as a public key that everybody knows.
func hmacWith(secret []byte, header, claims object) string {
	return issuertest.Signed(jwt.SigningMethodHS256, secret, header, claims)
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
