package oauth_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/auth/oauth"
	"github.com/vitrine-mcp/vitrine/mcp"
)

// A good token of each algorithm has a principal with all that the token says.
func TestTokensOfEachAlgorithm(t *testing.T) {
	for _, alg := range []string{"ES256", "ES384", "ES512", "EdDSA", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512"} {
		t.Run(alg, func(t *testing.T) {
			key := newSigner("k1", alg)
			rs := newServer(t, newIssuer(key), func(c *oauth.Config) { c.TenantClaim = "org" })
			p := admitted(t, rs, bearer(key.sign(with(goodClaims(), jwt.MapClaims{
				"org": "acme", "aud": []string{"https://other.example.com", resource}, "id": int64(9007199254740993),
				"act": map[string]any{"sub": "agent", "act": map[string]any{"sub": "gateway", "iss": "https://other.example.com"}},
			}), nil)))
			require.Equal(t, issuerName, p.Issuer)
			require.Equal(t, "ann", p.Subject)
			require.Equal(t, "acme", p.Tenant)
			require.Equal(t, "editor", p.Client)
			require.Equal(t, []string{"demo:read", "demo:write"}, p.Scopes)
			require.Equal(t, []string{"agent", "gateway (https://other.example.com)"}, p.Actors)
			require.WithinDuration(t, time.Now().Add(10*time.Minute+10*time.Second), p.Expires, 2*time.Second)
			require.Equal(t, int64(9007199254740993), p.Claims["id"], "whole numbers keep all digits")
		})
	}
}

// Issuers write scopes as a string or as a list, and clients under several names.
func TestScopesAndClientsOfIssuers(t *testing.T) {
	key := newSigner("k1", "ES256")
	rs := newServer(t, newIssuer(key), nil)
	for name, c := range map[string]struct {
		claims jwt.MapClaims
		scopes []string
		client string
	}{
		"Keycloak": {jwt.MapClaims{"scope": "a  b a", "client_id": nil, "azp": "web"}, []string{"a", "b"}, "web"},
		"Okta":     {jwt.MapClaims{"scope": nil, "scp": []string{"a", "b"}, "client_id": nil, "cid": "web"}, []string{"a", "b"}, "web"},
		"Entra":    {jwt.MapClaims{"scope": nil, "scp": "a b", "client_id": nil}, []string{"a", "b"}, ""},
		"none":     {jwt.MapClaims{"scope": nil}, nil, "editor"},
	} {
		p := admitted(t, rs, bearer(key.sign(with(goodClaims(), c.claims), nil)))
		require.Equal(t, c.scopes, p.Scopes, name)
		require.Equal(t, c.client, p.Client, name)
	}
}

// wrongToken is a token that must be refused.
type wrongToken struct {
	name, reason string
	token        string
}

// wrongTokens returns tokens with one thing wrong each. key is the issuer's only key, rsa one with
// which a secret can be made of a public key.
func wrongTokens(t testing.TB, key, rsa *signer) []wrongToken {
	t.Helper()
	good := goodClaims()
	changed := func(changes jwt.MapClaims) string { return key.sign(with(good, changes), nil) }
	header := func(more map[string]any) string { return key.sign(good, more) }
	valid := key.sign(good, nil)
	parts := strings.Split(valid, ".")
	der, err := x509.MarshalPKIXPublicKey(rsa.private.Public())
	require.NoError(t, err)
	secret := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	symmetric := jwt.NewWithClaims(jwt.SigningMethodHS256, good)
	symmetric.Header["kid"], symmetric.Header["typ"] = rsa.id, "at+jwt"
	hs256, err := symmetric.SignedString(secret)
	require.NoError(t, err)
	unsigned := jwt.NewWithClaims(jwt.SigningMethodNone, good)
	unsigned.Header["kid"], unsigned.Header["typ"] = key.id, "at+jwt"
	none, err := unsigned.SignedString(jwt.UnsafeAllowNoneSignatureType)
	require.NoError(t, err)
	impostor := newSigner(key.id, "ES256")
	flipped := []byte(valid)
	if i := len(flipped) - 10; flipped[i] == 'A' {
		flipped[i] = 'B'
	} else {
		flipped[i] = 'A'
	}
	deep := map[string]any{"sub": "a"}
	for range 20 {
		deep = map[string]any{"sub": "a", "act": deep}
	}
	raw := func(header, claims string) string {
		return b64([]byte(header)) + "." + b64([]byte(claims)) + "." + parts[2]
	}
	return []wrongToken{
		{"garbage", "token_malformed", "garbage"},
		{"two parts", "token_malformed", parts[0] + "." + parts[1]},
		{"four parts", "token_malformed", valid + ".x"},
		{"no base64", "token_malformed", "a~.b.c"},
		{"null claims", "token_issuer", raw(`{"alg":"ES256","kid":"k1","typ":"at+jwt"}`, `null`)},
		{"null header", "token_malformed", raw(`null`, `{}`)},
		{"repeated member of the header", "token_malformed", raw(`{"alg":"none","alg":"ES256","kid":"k1"}`, `{}`)},
		{"repeated claim", "token_malformed", raw(`{"alg":"ES256","kid":"k1"}`, `{"sub":"ann","sub":"eve","iss":"`+issuerName+`"}`)},
		{"many values in the header", "token_malformed", header(map[string]any{"x": make([]bool, 61)})}, // and alg, kid, typ, x
		{"many values before the algorithm", "token_malformed", raw(`{"Z":[`+strings.Repeat("1,", 64)+`1],"alg":"ES256","kid":"k1"}`, `{}`)},
		{"many numbers in the header", "token_malformed", header(map[string]any{"x": make([]int, 8)})},
		{"wrong claims that nobody has signed", "token_signature", raw(`{"alg":"ES256","kid":"k1","typ":"at+jwt"}`, `{"iss":"`+issuerName+`","exp":"tomorrow"}`)},
		{"too long", "token_malformed", changed(jwt.MapClaims{"x": strings.Repeat("x", 17<<10)})},
		{"expired", "token_expired", changed(jwt.MapClaims{"exp": time.Now().Add(-time.Minute).Unix()})},
		{"without exp", "token_claims", changed(jwt.MapClaims{"exp": nil})},
		{"exp is a string", "token_claims", changed(jwt.MapClaims{"exp": "tomorrow"})},
		{"exp is huge", "token_claims", changed(jwt.MapClaims{"exp": 1e30})},
		{"not yet valid", "token_not_yet_valid", changed(jwt.MapClaims{"nbf": time.Now().Add(time.Minute).Unix()})},
		{"wrong audience", "token_audience", changed(jwt.MapClaims{"aud": "https://mcp.example.com/other"})},
		{"audience is a prefix", "token_audience", changed(jwt.MapClaims{"aud": "https://mcp.example.com"})},
		{"audience with a slash", "token_audience", changed(jwt.MapClaims{"aud": resource + "/"})},
		{"no audience", "token_audience", changed(jwt.MapClaims{"aud": nil})},
		{"empty audience", "token_audience", changed(jwt.MapClaims{"aud": []string{}})},
		{"wrong issuer", "token_issuer", changed(jwt.MapClaims{"iss": "https://evil.example.com"})},
		{"issuer with a slash", "token_issuer", changed(jwt.MapClaims{"iss": issuerName + "/"})},
		{"no issuer", "token_issuer", changed(jwt.MapClaims{"iss": nil})},
		{"no subject", "token_claims", changed(jwt.MapClaims{"sub": nil})},
		{"subject with control characters", "token_claims", changed(jwt.MapClaims{"sub": "ann\x1f"})},
		{"bound to a key", "token_claims", changed(jwt.MapClaims{"cnf": map[string]any{"jkt": "x"}})},
		{"scopes are numbers", "token_claims", changed(jwt.MapClaims{"scope": []int{1}})},
		{"actor is a string", "token_claims", changed(jwt.MapClaims{"act": "agent"})},
		{"too many actors", "token_claims", changed(jwt.MapClaims{"act": deep})},
		{"alg none", "token_algorithm", none},
		{"alg None", "token_algorithm", raw(`{"alg":"None","kid":"k1"}`, `{}`)},
		{"HS256 with the public key", "token_algorithm", hs256},
		{"another key", "token_signature", impostor.sign(good, nil)},
		{"a flipped bit", "token_signature", string(flipped)},
		{"no signature", "token_signature", parts[0] + "." + parts[1] + "."},
		{"another algorithm than the key's", "token_signature", rsa.sign(good, map[string]any{"kid": key.id})},
		{"unknown key id", "token_signature", impostor.sign(good, map[string]any{"kid": "k2"})},
		{"own key in the header", "token_signature", impostor.sign(good, map[string]any{"kid": "k3", "jwk": impostor.public})},
		{"own key at a URL", "token_signature", impostor.sign(good, map[string]any{"kid": "k3", "jku": "https://evil.example.com/keys", "x5u": "https://evil.example.com/cert"})},
		{"ID token", "token_type", header(map[string]any{"typ": "JWT"})},
		{"logout token", "token_type", header(map[string]any{"typ": "logout+jwt"})},
		{"critical extension", "token_type", header(map[string]any{"crit": []string{"exp"}})},
	}
}

// A wrong token is refused with its reason. The caller gets the same for all of them.
func TestWrongTokens(t *testing.T) {
	key, rsa := newSigner("k1", "ES256"), newSigner("r1", "RS256")
	issuer := newIssuer(key)
	issuer.answer(func(_ http.ResponseWriter, r *http.Request) bool {
		require.Equal(t, "login.example.com", r.URL.Host, "nothing is fetched from elsewhere")
		return false
	})
	rs := newServer(t, issuer, nil)
	good := key.sign(goodClaims(), nil)
	admitted(t, rs, bearer(good))
	for _, c := range wrongTokens(t, key, rsa) {
		t.Run(c.name, func(t *testing.T) {
			r := refusedFor(t, rs, bearer(c.token))
			require.Equal(t, c.reason, r.Reason, "%v", r.Err)
			require.Error(t, r.Err, "the operator learns more")
			require.Equal(t, 401, r.Status)
			require.Equal(t, `Bearer error="invalid_token", error_description="the access token is not valid for this resource", `+
				`scope="demo:read demo:write", resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"`, r.Challenge)
			told := r.RPC()
			require.Equal(t, "the access token is not valid for this resource", told.Message)
			want := mcp.ErrorData{Reason: "invalid_token"}
			if c.name == "too long" {
				want.Limit = "max_token_bytes"
			}
			require.Equal(t, want, told.Data)
		})
	}
	require.Equal(t, "ann", admitted(t, rs, bearer(good)).Subject)
	require.LessOrEqual(t, issuer.fetches("/keys"), 1+3, "unknown key ids are not asked for again and again")
}

// What is no token at all is refused as such: without credentials 401, with malformed ones 400.
func TestCredentials(t *testing.T) {
	key := newSigner("k1", "ES256")
	issuer := newIssuer(key)
	rs := newServer(t, issuer, nil)
	good := key.sign(goodClaims(), nil)
	const challenge = `scope="demo:read demo:write", resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp"`
	for name, c := range map[string]struct {
		headers   []string
		status    int
		reason    string
		challenge string
	}{
		"none":               {nil, 401, "token_missing", "Bearer " + challenge},
		"empty":              {[]string{""}, 401, "token_missing", "Bearer " + challenge},
		"another scheme":     {[]string{"Basic YTpi"}, 401, "token_missing", "Bearer " + challenge},
		"no token":           {[]string{"Bearer"}, 400, "authorization_malformed", `Bearer error="invalid_request"`},
		"blank token":        {[]string{"Bearer  "}, 400, "authorization_malformed", `Bearer error="invalid_request"`},
		"two tokens":         {[]string{"Bearer " + good + " " + good}, 400, "authorization_malformed", `Bearer error="invalid_request"`},
		"two headers":        {[]string{"Bearer " + good, "Bearer " + good}, 400, "authorization_malformed", `Bearer error="invalid_request"`},
		"control characters": {[]string{"Bearer a\x00b"}, 400, "authorization_malformed", `Bearer error="invalid_request"`},
	} {
		t.Run(name, func(t *testing.T) {
			r := refusedFor(t, rs, &auth.Caller{Transport: "http", Header: http.Header{"Authorization": c.headers}})
			require.Equal(t, c.status, r.Status)
			require.Equal(t, c.reason, r.Reason)
			require.True(t, strings.HasPrefix(r.Challenge, c.challenge), r.Challenge)
		})
	}
	require.Zero(t, issuer.requests(), "nothing is fetched before there is a token")
	require.Equal(t, "ann", admitted(t, rs, &auth.Caller{Transport: "http", Header: http.Header{"Authorization": {"bearer  " + good}}}).Subject)
	require.Equal(t, 401, refusedFor(t, rs, &auth.Caller{Transport: "websocket"}).Status, "a connection without headers is not local")
}

// With Optional, requests without a token have no principal. Bad tokens are refused all the same.
func TestOptionalAuthentication(t *testing.T) {
	key := newSigner("k1", "ES256")
	rs := newServer(t, newIssuer(key), func(c *oauth.Config) { c.Optional = true })
	p, err := rs.Authenticate(context.Background(), &auth.Caller{Transport: "http", Header: http.Header{}})
	require.NoError(t, err)
	require.Nil(t, p)
	refusedFor(t, rs, bearer("garbage"))
	require.Equal(t, "ann", admitted(t, rs, bearer(key.sign(goodClaims(), nil))).Subject)
}

// With Optional, credentials that are not understood are refused: their caller would think that they were good.
func TestOptionalAuthenticationRefusesWhatItDoesNotUnderstand(t *testing.T) {
	key := newSigner("k1", "ES256")
	rs := newServer(t, newIssuer(key), func(c *oauth.Config) { c.Optional = true })
	other := auth.AuthenticatorFunc(func(_ context.Context, caller *auth.Caller) (*auth.Principal, error) {
		if http.Header(caller.Header).Get("Authorization") == "Basic YTpi" {
			return &auth.Principal{Subject: "other"}, nil
		}
		return nil, auth.ErrNotRecognized
	})
	for _, header := range []string{"DPoP abc", "Basic YTpi", "Bearer\tabc", "abc", ""} {
		caller := &auth.Caller{Transport: "http", Header: http.Header{"Authorization": {header}}}
		r := refusedFor(t, rs, caller)
		require.Equal(t, 401, r.Status, "%q", header)
		require.ErrorIs(t, r, auth.ErrNotRecognized)
		require.Contains(t, r.Challenge, "resource_metadata=")

		// An authenticator before it may understand them.
		p, err := auth.FirstOf(other, rs).Authenticate(context.Background(), caller)
		if header == "Basic YTpi" {
			require.NoError(t, err)
			require.Equal(t, "other", p.Subject)
			continue
		}
		require.Error(t, err, "%q", header)
		require.Nil(t, p)
	}
	p, err := auth.FirstOf(other, rs).Authenticate(context.Background(), &auth.Caller{Transport: "http", Header: http.Header{}})
	require.NoError(t, err)
	require.Nil(t, p)
	p, err = auth.FirstOf(other, rs).Authenticate(context.Background(), bearer(key.sign(goodClaims(), nil)))
	require.NoError(t, err)
	require.Equal(t, "ann", p.Subject)
}

// Callers over stdio have the token of the environment, or no principal.
func TestStdioCallers(t *testing.T) {
	key := newSigner("k1", "ES256")
	stdio := &auth.Caller{Transport: "stdio"}
	rs := newServer(t, newIssuer(key), func(c *oauth.Config) { c.StdioToken = key.sign(goodClaims(), nil) })
	require.Equal(t, "ann", admitted(t, rs, stdio).Subject)
	rs = newServer(t, newIssuer(key), func(c *oauth.Config) { c.StdioToken = "garbage" })
	refusedFor(t, rs, stdio)
	rs = newServer(t, newIssuer(key), nil)
	p, err := rs.Authenticate(context.Background(), stdio)
	require.NoError(t, err)
	require.Nil(t, p)
}

// Headers may have other members, as long as these are not many.
func TestHeadersWithOtherMembers(t *testing.T) {
	key := newSigner("k1", "ES256")
	rs := newServer(t, newIssuer(key), nil)
	for name, x := range map[string]any{
		"certificates": []string{strings.Repeat("A", 2000), strings.Repeat("B", 2000), strings.Repeat("C", 2000)},
		"values":       make([]bool, 60), // and alg, kid, typ, x
		"numbers":      make([]int, 7),
	} {
		t.Run(name, func(t *testing.T) { admitted(t, rs, bearer(key.sign(goodClaims(), map[string]any{"x": x}))) })
	}
}

// An issuer that does not know the type at+jwt sends JWT. As soon as it has sent at+jwt, it must.
func TestTokenTypes(t *testing.T) {
	key := newSigner("k1", "ES256")
	plain := func(changes jwt.MapClaims) *auth.Caller {
		return bearer(key.sign(with(goodClaims(), changes), map[string]any{"typ": "JWT"}))
	}
	rs := newServer(t, newIssuer(key), nil)
	admitted(t, rs, plain(nil))
	admitted(t, rs, bearer(key.sign(goodClaims(), map[string]any{"typ": nil})))
	require.Equal(t, "token_type", refusedFor(t, rs, plain(jwt.MapClaims{"typ": "ID"})).Reason)
	require.Equal(t, "token_type", refusedFor(t, rs, plain(jwt.MapClaims{"token_use": "id"})).Reason)
	admitted(t, rs, plain(jwt.MapClaims{"typ": "Bearer"}))
	admitted(t, rs, bearer(key.sign(goodClaims(), map[string]any{"typ": "application/AT+JWT"})))
	require.Equal(t, "token_type", refusedFor(t, rs, plain(jwt.MapClaims{"jti": "2"})).Reason)
	rs = newServer(t, newIssuer(key), func(c *oauth.Config) { c.RequireTokenType = true })
	require.Equal(t, "token_type", refusedFor(t, rs, plain(nil)).Reason)
}

// Only a token that is accepted tells that an issuer sends at+jwt. The issuer may send that type for another resource and JWT
// for this one, and anybody with such a token could otherwise shut out everybody else.
func TestRefusedTokensDoNotSetTheType(t *testing.T) {
	key := newSigner("k1", "ES256")
	for name, changes := range map[string]jwt.MapClaims{
		"another resource": {"aud": "https://other.example.com/mcp"},
		"expired":          {"exp": time.Now().Add(-time.Hour).Unix()},
		"no subject":       {"sub": nil},
	} {
		t.Run(name, func(t *testing.T) {
			rs := newServer(t, newIssuer(key), nil)
			refusedFor(t, rs, bearer(key.sign(with(goodClaims(), changes), map[string]any{"typ": "at+jwt"})))
			admitted(t, rs, bearer(key.sign(goodClaims(), map[string]any{"typ": "JWT"})))
		})
	}
}

// Each issuer's keys verify that issuer's tokens only.
func TestSeveralIssuers(t *testing.T) {
	first, second := newSigner("k1", "ES256"), newSigner("k1", "ES256")
	one, two := newIssuer(first), newIssuer(second)
	two.name = "https://other.example.com"
	hosts := map[string]http.RoundTripper{"login.example.com": one, "other.example.com": two}
	rs := newServer(t, one, func(c *oauth.Config) {
		c.Issuers = []string{one.name, two.name}
		c.Client = &http.Client{Transport: byHost(hosts)}
	})
	require.NoError(t, rs.Check(context.Background()))
	other := with(goodClaims(), jwt.MapClaims{"iss": two.name})
	require.Equal(t, one.name, admitted(t, rs, bearer(first.sign(goodClaims(), nil))).Issuer)
	require.Equal(t, two.name, admitted(t, rs, bearer(second.sign(other, nil))).Issuer)
	require.Equal(t, "token_signature", refusedFor(t, rs, bearer(first.sign(other, nil))).Reason)
	require.Equal(t, "token_signature", refusedFor(t, rs, bearer(second.sign(goodClaims(), nil))).Reason)
}

type byHost map[string]http.RoundTripper

func (b byHost) RoundTrip(r *http.Request) (*http.Response, error) { return b[r.URL.Host].RoundTrip(r) }

// A resource without a path may be written with a slash: libraries for URLs do so.
func TestAudienceOfAResourceWithoutPath(t *testing.T) {
	key := newSigner("k1", "ES256")
	rs := newServer(t, newIssuer(key), func(c *oauth.Config) { c.Resource = "https://mcp.example.com" })
	for _, aud := range []string{"https://mcp.example.com", "https://mcp.example.com/"} {
		admitted(t, rs, bearer(key.sign(with(goodClaims(), jwt.MapClaims{"aud": aud}), nil)))
	}
	require.Equal(t, "token_audience", refusedFor(t, rs, bearer(key.sign(goodClaims(), nil))).Reason)
	rs = newServer(t, newIssuer(key), func(c *oauth.Config) { c.Audiences = []string{"api://vitrine"} })
	admitted(t, rs, bearer(key.sign(with(goodClaims(), jwt.MapClaims{"aud": "api://vitrine"}), nil)))
	require.Equal(t, "token_audience", refusedFor(t, rs, bearer(key.sign(goodClaims(), nil))).Reason)
}

// A token without the tenant's claim is refused if there are tenants.
func TestTokenWithoutTenant(t *testing.T) {
	key := newSigner("k1", "ES256")
	rs := newServer(t, newIssuer(key), func(c *oauth.Config) { c.TenantClaim = "org" })
	require.Equal(t, "token_claims", refusedFor(t, rs, bearer(key.sign(goodClaims(), nil))).Reason)
	require.Equal(t, "token_claims", refusedFor(t, rs, bearer(key.sign(with(goodClaims(), jwt.MapClaims{"org": 7}), nil))).Reason)
}

// Another authenticator is asked about credentials that are none of an issuer's.
func TestResourceServerAmongOthers(t *testing.T) {
	key := newSigner("k1", "ES256")
	rs := newServer(t, newIssuer(key), nil)
	first := auth.FirstOf(rs, auth.AuthenticatorFunc(func(context.Context, *auth.Caller) (*auth.Principal, error) {
		return &auth.Principal{Subject: "other"}, nil
	}))
	for want, caller := range map[string]*auth.Caller{
		"ann": bearer(key.sign(goodClaims(), nil)), "other": bearer("static"), " other": {Transport: "http", Header: http.Header{}},
	} {
		p, err := first.Authenticate(context.Background(), caller)
		require.NoError(t, err)
		require.Equal(t, strings.TrimSpace(want), p.Subject)
	}
	_, err := first.Authenticate(context.Background(), bearer(key.sign(with(goodClaims(), jwt.MapClaims{"aud": "x"}), nil)))
	require.Error(t, err, "a wrong token of an issuer is not for others")
	require.Equal(t, issuerName, first.(auth.Reporter).Stats().Issuers[0].Issuer)
	require.NotEmpty(t, first.(auth.Challenger).Challenge(403, nil))
}
