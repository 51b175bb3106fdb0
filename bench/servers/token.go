package servers

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// What the access tokens of an [issuer] say.
const (
	issuerURL = "https://login.example.com"
	resource  = "https://mcp.example.com/mcp"
	keyID     = "k1"
	tenant    = "bench"
	scope     = "tools:call"
)

// An issuer is the authorization server of one process. It is reached without a network.
type issuer struct {
	key   *ecdsa.PrivateKey
	token string
}

var thisIssuer = sync.OnceValues(func() (*issuer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	unsigned := jwt.NewWithClaims(jwt.SigningMethodES256, jwt.MapClaims{
		"iss": issuerURL, "sub": "5f0c2f0e-5a5e-4ac0-b8a4-4c2a0f4f5a0e", "aud": resource, "client_id": "bench",
		"iat": now.Unix(), "exp": now.Add(time.Hour).Unix(), "jti": "9a1cf6f0-42a6-4c3f-a7c3-59a9d3a0f7b2",
		"scope": "openid " + scope, "tenant": tenant, "email": "ann@example.com", "groups": []string{"dev", "ops"},
	})
	unsigned.Header["kid"], unsigned.Header["typ"] = keyID, "at+jwt"
	token, err := unsigned.SignedString(key)
	return &issuer{key, token}, err
})

// Token returns an access token that the protected kinds of this process accept. It is a JWT with the
// algorithm ES256. All processes have tokens of the same length.
func Token() (string, error) {
	i, err := thisIssuer()
	if err != nil {
		return "", err
	}
	return i.token, nil
}

// RoundTrip answers a request for the metadata or the keys of the issuer.
func (i *issuer) RoundTrip(r *http.Request) (*http.Response, error) {
	document := map[string]any{"issuer": issuerURL, "jwks_uri": issuerURL + "/keys"}
	if strings.HasSuffix(r.URL.Path, "/keys") {
		point, err := i.key.PublicKey.Bytes()
		if err != nil {
			return nil, err
		}
		b64 := base64.RawURLEncoding.EncodeToString
		document = map[string]any{"keys": []any{map[string]any{
			"kty": "EC", "crv": "P-256", "kid": keyID, "x": b64(point[1:33]), "y": b64(point[33:]),
		}}}
	}
	body, err := json.Marshal(document)
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}, err
}
