package oauth_test

import (
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth/oauth"
)

// always sets up a resource server that asks the issuer about JWTs, too.
func always(c *oauth.Config) {
	introspecting(c)
	c.Introspection.Always = true
}

// What is no access token is refused although the issuer says that it is active, whether its claims or its header say so.
func TestIntrospectedTokensThatAreNoAccessTokens(t *testing.T) {
	key := newSigner("k1", "ES256")
	plain := map[string]any{"typ": "JWT"}
	for name, c := range map[string]struct {
		header map[string]any // of a JWT; nil for an opaque token
		answer jwt.MapClaims
		reason string
	}{
		"access token of Keycloak":         {nil, jwt.MapClaims{"typ": "Bearer"}, ""},
		"refresh token of Keycloak":        {nil, jwt.MapClaims{"typ": "Refresh"}, "token_type"},
		"offline token of Keycloak":        {nil, jwt.MapClaims{"typ": "Offline"}, "token_type"},
		"ID token of Keycloak":             {nil, jwt.MapClaims{"typ": "ID"}, "token_type"},
		"ID token of Cognito":              {nil, jwt.MapClaims{"token_use": "id"}, "token_type"},
		"refresh token of Cognito":         {nil, jwt.MapClaims{"token_use": "refresh"}, "token_type"},
		"access token of Cognito":          {nil, jwt.MapClaims{"token_use": "access"}, ""},
		"JWT":                              {plain, nil, ""},
		"JWT without a type":               {map[string]any{"typ": nil}, nil, ""},
		"JWT with the type of RFC 9068":    {map[string]any{"typ": "application/at+jwt"}, nil, ""},
		"JWT whose claims say ID":          {plain, jwt.MapClaims{"typ": "ID"}, "token_type"},
		"ID token by its header":           {map[string]any{"typ": "id_token+jwt"}, nil, "token_type"},
		"logout token by its header":       {map[string]any{"typ": "logout+jwt"}, nil, "token_type"},
		"JWT with a critical extension":    {map[string]any{"crit": []string{"exp"}}, nil, "token_type"},
		"JWT with a header of many values": {map[string]any{"x": make([]bool, 61)}, nil, "token_malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			issuer := newIssuer(key)
			rs := newServer(t, issuer, always)
			token := "opaque"
			if c.header != nil {
				token = key.sign(goodClaims(), c.header)
			}
			issuer.know(token, c.answer)
			if c.reason == "" {
				admitted(t, rs, bearer(token))
				return
			}
			require.Equal(t, c.reason, refusedFor(t, rs, bearer(token)).Reason)
		})
	}
}

// As soon as the issuer has accepted a JWT with the type at+jwt, or with RequireTokenType, others need it as well. Opaque
// tokens have no type.
func TestTokenTypesOfIntrospectedJWTs(t *testing.T) {
	key := newSigner("k1", "ES256")
	issuer := newIssuer(key)
	know := func(id, typ string) string {
		token := key.sign(with(goodClaims(), jwt.MapClaims{"jti": id}), map[string]any{"typ": typ})
		issuer.know(token, nil)
		return token
	}
	rs := newServer(t, issuer, always)
	admitted(t, rs, bearer(know("1", "JWT")))
	unknown := key.sign(with(goodClaims(), jwt.MapClaims{"jti": "2"}), nil)
	require.Equal(t, "token_inactive", refusedFor(t, rs, bearer(unknown)).Reason)
	admitted(t, rs, bearer(know("3", "JWT")))
	admitted(t, rs, bearer(know("4", "at+jwt")))
	require.Equal(t, "token_type", refusedFor(t, rs, bearer(know("5", "JWT"))).Reason)
	issuer.know("opaque", nil)
	admitted(t, rs, bearer("opaque"))

	rs = newServer(t, issuer, always)
	token := key.sign(with(goodClaims(), jwt.MapClaims{"typ": "ID"}), map[string]any{"typ": "JWT"})
	issuer.know(token, nil)
	require.Equal(t, "token_type", refusedFor(t, rs, bearer(token)).Reason, "the answer of the issuer does not say what the JWT says")

	rs = newServer(t, issuer, func(c *oauth.Config) {
		always(c)
		c.RequireTokenType = true
	})
	require.Equal(t, "token_type", refusedFor(t, rs, bearer(know("6", "JWT"))).Reason)
	admitted(t, rs, bearer(know("7", "at+jwt")))
	admitted(t, rs, bearer("opaque"))
}
