package oauth_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/auth/oauth"
)

// refreshes returns how often the keys of the first issuer were fetched, by cause and result.
func refreshes(rs *oauth.ResourceServer) map[auth.Refresh]uint64 {
	return rs.Stats().Issuers[0].Refreshes
}

// Keys rotate every second while calls run, some without any time with both keys: no call fails, and
// each rotation costs one fetch.
func TestKeysRotateWhileCallsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rotations = 30
		keys := []*signer{newSigner("k0", "ES256")}
		for i := range rotations {
			keys = append(keys, newSigner(fmt.Sprintf("k%d", i+1), "ES256"))
		}
		issuer := newIssuer(keys[0])
		rs := newServer(t, issuer, nil)
		var current atomic.Pointer[signer]
		current.Store(keys[0])
		ctx, stop := context.WithCancel(t.Context())
		var calls, failures atomic.Int64
		for range 8 {
			go func() {
				for n := 0; ctx.Err() == nil; n++ {
					key := current.Load()
					token := key.sign(with(goodClaims(), jwt.MapClaims{"jti": n}), nil)
					if _, err := rs.Authenticate(ctx, bearer(token)); err != nil && key == current.Load() {
						failures.Add(1) // not because the issuer has withdrawn the key meanwhile
					}
					calls.Add(1)
					time.Sleep(100 * time.Millisecond)
				}
			}()
		}
		for i := range rotations {
			time.Sleep(time.Second)
			published := keys[i+1:]
			if i%2 == 0 {
				published = keys[i:]
			}
			issuer.publish(published[:min(2, len(published))]...)
			current.Store(keys[i+1])
		}
		time.Sleep(time.Second)
		stop()
		time.Sleep(time.Second)
		require.Zero(t, failures.Load())
		require.Greater(t, calls.Load(), int64(8*rotations))
		require.LessOrEqual(t, issuer.fetches("/keys"), 1+rotations)
		require.Equal(t, 1, issuer.fetches("/.well-known/oauth-authorization-server"))
	})
}

// A flood of unknown key ids costs the issuer one request in five seconds. A real rotation in its
// midst is seen in that time.
func TestFloodOfUnknownKeyIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, next := newSigner("k1", "ES256"), newSigner("k2", "ES256")
		issuer := newIssuer(key)
		rs := newServer(t, issuer, nil)
		admitted(t, rs, bearer(key.sign(goodClaims(), nil)))
		claims := b64([]byte(`{"iss":"` + issuerName + `"}`))
		flood := func(d time.Duration) {
			for n := range int(d / (5 * time.Millisecond)) {
				header := b64(fmt.Appendf(nil, `{"alg":"ES256","typ":"at+jwt","kid":"x%d"}`, n))
				require.Equal(t, 401, refusedFor(t, rs, bearer(header+"."+claims+".AA")).Status)
				time.Sleep(5 * time.Millisecond)
			}
		}
		flood(30 * time.Second)
		require.LessOrEqual(t, issuer.requests(), 2+3+30/5, "the metadata, the first keys, a burst, and one in five seconds")
		require.GreaterOrEqual(t, issuer.fetches("/keys"), 30/5)
		require.Greater(t, refreshes(rs)[auth.Refresh{Cause: "unknown_key", Result: "too_soon"}], uint64(5000))
		issuer.publish(key, next)
		flood(5100 * time.Millisecond)
		admitted(t, rs, bearer(next.sign(goodClaims(), nil)))
		admitted(t, rs, bearer(key.sign(with(goodClaims(), jwt.MapClaims{"jti": "2"}), nil)))
	})
}

// While the issuer is down its keys serve, for a day. Unknown key ids do not hammer it.
func TestIssuerIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, other := newSigner("k1", "ES256"), newSigner("k2", "ES256")
		issuer := newIssuer(key)
		rs := newServer(t, issuer, nil)
		call := func(key *signer, n int) *auth.Caller {
			return bearer(key.sign(with(goodClaims(), jwt.MapClaims{"jti": n}), nil))
		}
		admitted(t, rs, call(key, 0))
		issuer.setDown(true)
		before := issuer.requests()
		for n := range 1000 {
			time.Sleep(3600 * time.Millisecond)
			admitted(t, rs, call(key, n))
			r := refusedFor(t, rs, call(other, n))
			require.Equal(t, 503, r.Status)
			require.Equal(t, "issuer_unavailable", r.Reason)
			require.Equal(t, 5*time.Second, r.RetryAfter)
		}
		require.LessOrEqual(t, issuer.requests()-before, 3600/5+3+20, "in an hour")
		require.Equal(t, 1, rs.Stats().Issuers[0].Keys)
		time.Sleep(22 * time.Hour)
		admitted(t, rs, call(key, 1000))
		time.Sleep(2 * time.Hour)
		require.Equal(t, "issuer_unavailable", refusedFor(t, rs, call(key, 1001)).Reason, "keys of a day ago")
		issuer.setDown(false)
		time.Sleep(11 * time.Minute)
		admitted(t, rs, call(key, 1002))
		require.Equal(t, "token_signature", refusedFor(t, rs, call(other, 1002)).Reason)
	})
}

// An issuer that has never answered makes its tokens unjudgeable, and is not hammered either.
func TestIssuerIsDownFromTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := newSigner("k1", "ES256")
		issuer := newIssuer(key)
		issuer.setDown(true)
		rs := newServer(t, issuer, nil)
		require.ErrorContains(t, rs.Check(t.Context()), "oauth: issuer https://login.example.com: metadata: https://login.example.com/.well-known/oauth-authorization-server: connection refused")
		token := bearer(key.sign(goodClaims(), nil))
		for range 100 {
			require.Equal(t, "issuer_unavailable", refusedFor(t, rs, token).Reason)
			time.Sleep(100 * time.Millisecond)
		}
		require.LessOrEqual(t, issuer.requests(), 1+3+2+2)
		issuer.setDown(false)
		time.Sleep(5 * time.Second)
		admitted(t, rs, token)
	})
}

// While a slow issuer is asked, tokens with known keys do not wait. Others wait no longer than the
// time-out, and no more of them than max_key_waiters.
func TestIssuerIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, other := newSigner("k1", "ES256"), newSigner("k2", "ES256")
		issuer := newIssuer(key)
		rs := newServer(t, issuer, nil)
		admitted(t, rs, bearer(key.sign(goodClaims(), nil)))
		issuer.answer(func(_ http.ResponseWriter, r *http.Request) bool {
			select {
			case <-r.Context().Done():
			case <-time.After(time.Minute):
			}
			return false
		})
		began := time.Now()
		var waited, full atomic.Int64
		unknown := bearer(other.sign(goodClaims(), nil))
		for range 200 {
			go func() {
				r := refusedFor(t, rs, unknown)
				switch {
				case r.Limit == "max_key_waiters" && time.Since(began) == 0:
					full.Add(1)
				case r.Limit == "" && time.Since(began) == 5*time.Second:
					waited.Add(1)
				}
			}()
		}
		synctest.Wait()
		admitted(t, rs, bearer(key.sign(with(goodClaims(), jwt.MapClaims{"jti": "2"}), nil)))
		require.Zero(t, time.Since(began))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.EqualValues(t, 128, waited.Load())
		require.EqualValues(t, 72, full.Load())
		require.EqualValues(t, 72, rs.Stats().LimitsReached["max_key_waiters"])
		require.EqualValues(t, 200, unavailable(rs))
		time.Sleep(time.Minute)
		began = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := rs.Authenticate(ctx, unknown)
		require.Error(t, err)
		require.Equal(t, time.Second, time.Since(began), "a caller that has gone does not wait")
		issuer.answer(nil)
	})
}

// What a lying issuer says is not believed. The keys that it had before serve on, and Check says what
// is wrong.
func TestIssuerLies(t *testing.T) {
	write := func(text string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }
	}
	metadata := func(text string) map[string]func(http.ResponseWriter, *http.Request) {
		return map[string]func(http.ResponseWriter, *http.Request){"/.well-known/oauth-authorization-server": write(text)}
	}
	keys := func(f func(http.ResponseWriter, *http.Request)) map[string]func(http.ResponseWriter, *http.Request) {
		return map[string]func(http.ResponseWriter, *http.Request){"/keys": f}
	}
	redirect := func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://evil.example.com"+r.URL.Path, http.StatusFound)
	}
	for name, c := range map[string]struct {
		answers map[string]func(http.ResponseWriter, *http.Request)
		problem string
		limit   string
	}{
		"another issuer":     {metadata(`{"issuer":"https://evil.example.com","jwks_uri":"https://login.example.com/keys"}`), `is of the issuer "https://evil.example.com", and must be of "https://login.example.com"`, ""},
		"issuer with slash":  {metadata(`{"issuer":"https://login.example.com/","jwks_uri":"https://login.example.com/keys"}`), "configure the issuer exactly", ""},
		"keys over http":     {metadata(`{"issuer":"https://login.example.com","jwks_uri":"http://login.example.com/keys"}`), "http is accepted only for a loopback address", ""},
		"keys in a file":     {metadata(`{"issuer":"https://login.example.com","jwks_uri":"file:///etc/passwd"}`), `the scheme "file" is not https`, ""},
		"no keys":            {metadata(`{"issuer":"https://login.example.com"}`), "has no jwks_uri", ""},
		"no JSON":            {metadata(`<html>`), "is no metadata", ""},
		"issuer in capitals": {metadata(`{"Issuer":"https://login.example.com","JWKS_URI":"https://login.example.com/keys"}`), `is of the issuer ""`, ""},
		"two issuers":        {metadata(`{"issuer":"https://evil.example.com","issuer":"https://login.example.com","jwks_uri":"https://login.example.com/keys"}`), "is no metadata", ""},
		"no UTF-8":           {metadata(`{"issuer":"https://login.example.com","jwks_uri":"https://login.example.com/` + "\xff" + `keys"}`), "is no metadata", ""},
		"huge metadata":      {metadata(`{"issuer":"` + strings.Repeat("x", 600<<10)), "sends more than 524288 bytes (max_issuer_bytes)", "max_issuer_bytes"},
		"metadata elsewhere": {map[string]func(http.ResponseWriter, *http.Request){"/.well-known/oauth-authorization-server": redirect}, `redirects to "https://evil.example.com/.well-known/oauth-authorization-server": redirects are not followed`, ""},
		"keys elsewhere":     {keys(redirect), "redirects are not followed", ""},
		"huge keys":          {keys(write(`{"keys":[` + strings.Repeat(" ", 600<<10) + `]}`)), "max_issuer_bytes", "max_issuer_bytes"},
		"too many keys":      {keys(write(`{"keys":[` + strings.Repeat("{},", 100) + `{}]}`)), "there are 101 keys, and max_issuer_keys allows 100", "max_issuer_keys"},
		"keys without keys":  {keys(write(`{}`)), `there is no member "keys"`, ""},
		"keys in capitals":   {keys(write(`{"Keys":[]}`)), `there is no member "keys"`, ""},
		"keys twice":         {keys(write(`{"keys":[],"keys":[]}`)), "no JWK Set", ""},
		"key with two kinds": {keys(write(`{"keys":[{"kty":"EC","kty":"RSA"}]}`)), "no JWK Set", ""},
		"keys no JSON":       {keys(write(`[`)), "no JWK Set", ""},
		"error":              {keys(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }), "answers with status 500", ""},
	} {
		t.Run(name, func(t *testing.T) {
			key := newSigner("k1", "ES256")
			issuer := newIssuer(key)
			lie := func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Host != "login.example.com" {
					t.Errorf("%s was asked for", r.URL)
				}
				if f := c.answers[r.URL.Path]; f != nil {
					f(w, r)
					return true
				}
				return false
			}
			rs := newServer(t, issuer, nil)
			issuer.answer(lie)
			require.ErrorContains(t, rs.Check(t.Context()), c.problem)
			require.Equal(t, "issuer_unavailable", refusedFor(t, rs, bearer(key.sign(goodClaims(), nil))).Reason)
			if c.limit != "" {
				require.NotZero(t, rs.Stats().LimitsReached[c.limit])
			}

			issuer.answer(nil)
			require.NoError(t, rs.Check(t.Context()))
			issuer.answer(lie)
			require.Error(t, rs.Check(t.Context()))
			admitted(t, rs, bearer(key.sign(goodClaims(), nil)))
		})
	}
}

// The metadata is looked for at each place where issuers have it.
func TestPlacesOfMetadata(t *testing.T) {
	for name, place := range map[string]string{
		"https://login.example.com":          "/.well-known/openid-configuration",
		"https://login.example.com/":         "/.well-known/oauth-authorization-server",
		"https://login.example.com/tenant":   "/.well-known/oauth-authorization-server/tenant",
		"https://login.example.com/tenant/a": "/.well-known/openid-configuration/tenant/a",
		"https://login.example.com/realms/x": "/realms/x/.well-known/openid-configuration",
	} {
		key := newSigner("k1", "ES256")
		issuer := newIssuer(key)
		issuer.name = name
		issuer.answer(func(w http.ResponseWriter, r *http.Request) bool {
			switch {
			case r.URL.Path == place:
				_, _ = fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":"https://login.example.com/keys"}`, name)
			case r.URL.Path == "/keys":
				return false
			default:
				http.NotFound(w, r)
			}
			return true
		})
		rs := newServer(t, issuer, nil)
		require.NoError(t, rs.Check(t.Context()), name)
		admitted(t, rs, bearer(key.sign(with(goodClaims(), jwt.MapClaims{"iss": name}), nil)))
	}
}

// Keys that cannot verify access tokens are ignored. Check refuses an issuer that has no others.
func TestUnusableKeys(t *testing.T) {
	good, secret := newSigner("good", "ES256"), newSigner("secret", "ES256")
	secret.public = map[string]any{"kid": "secret", "kty": "oct", "k": "c2VjcmV0"}
	changed := func(id, alg string, changes map[string]any) *signer {
		s := newSigner(id, alg)
		for name, value := range changes {
			s.public[name] = value
		}
		return s
	}
	unusable := []*signer{
		secret,
		changed("encrypts", "ES256", map[string]any{"use": "enc"}),
		changed("signs", "ES256", map[string]any{"key_ops": []string{"sign"}}),
		changed("off", "ES256", map[string]any{"x": good.public["y"]}),
		changed("mixed", "ES256", map[string]any{"alg": "RS256"}),
		changed("small", "RS256", map[string]any{"n": b64([]byte(strings.Repeat("\xff", 128)))}),
		changed("large", "RS256", map[string]any{"n": b64([]byte(strings.Repeat("\xff", 2000)))}),
		changed("even", "RS256", map[string]any{"e": "Ag"}),
		changed("curve", "ES256", map[string]any{"crv": "secp256k1"}),
	}
	rs := newServer(t, newIssuer(append(unusable, good)...), nil)
	require.NoError(t, rs.Check(t.Context()))
	require.Equal(t, 1, rs.Stats().Issuers[0].Keys)
	for _, key := range unusable {
		require.Equal(t, "token_signature", refusedFor(t, rs, bearer(key.sign(goodClaims(), nil))).Reason, key.id)
	}
	rs = newServer(t, newIssuer(unusable...), nil)
	require.ErrorContains(t, rs.Check(t.Context()), "https://login.example.com/keys has no key that can be used (9 were ignored)")
}

// A token without a key id may be of any key for its algorithm.
func TestTokensWithoutKeyID(t *testing.T) {
	first, second := newSigner("k1", "ES256"), newSigner("k2", "ES256")
	rs := newServer(t, newIssuer(first, second), nil)
	admitted(t, rs, bearer(second.sign(goodClaims(), map[string]any{"kid": nil})))
	stranger := newSigner("k1", "ES256")
	require.Equal(t, "token_signature", refusedFor(t, rs, bearer(stranger.sign(goodClaims(), map[string]any{"kid": nil}))).Reason)
}

// When a key leaves the issuer's set, the tokens that it has verified are refused at once, although
// they are remembered.
func TestKeyLeavesTheSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, next := newSigner("k1", "ES256"), newSigner("k2", "ES256")
		issuer := newIssuer(key, next)
		rs := newServer(t, issuer, nil)
		old := bearer(key.sign(goodClaims(), nil))
		remembered := bearer(next.sign(goodClaims(), nil))
		admitted(t, rs, old)
		admitted(t, rs, remembered)
		issuer.publish(next)
		require.NoError(t, rs.Check(t.Context()))
		fetches := issuer.fetches("/keys")
		require.Equal(t, "token_signature", refusedFor(t, rs, old).Reason)
		require.Equal(t, fetches+1, issuer.fetches("/keys"), "perhaps the answer without the key was an old one")
		require.Equal(t, "token_signature", refusedFor(t, rs, old).Reason)
		require.Equal(t, fetches+1, issuer.fetches("/keys"))
		hits := rs.Stats().Verifications[0].Accepted
		admitted(t, rs, remembered)
		require.Equal(t, hits+1, rs.Stats().Verifications[0].Accepted, "its key is still there")

		replaced := newSigner("k2", "ES256")
		issuer.publish(replaced)
		time.Sleep(11 * time.Minute)
		require.Equal(t, "token_signature", refusedFor(t, rs, bearer(next.sign(goodClaims(), nil))).Reason, "the same key id, another key")
		admitted(t, rs, bearer(replaced.sign(goodClaims(), nil)))
	})
}
