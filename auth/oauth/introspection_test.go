package oauth_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/vitrine-mcp/vitrine/auth"
	"github.com/vitrine-mcp/vitrine/auth/oauth"
)

// introspecting sets up a resource server that asks the issuer about opaque tokens.
func introspecting(c *oauth.Config) {
	c.Introspection = &oauth.Introspection{ClientID: "vitrine", ClientSecret: "s&cret"}
}

// know makes an opaque token known to the issuer, with some changes; nil removes a member.
func (f *fakeIssuer) know(token string, changes jwt.MapClaims) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tokens[token] = with(with(goodClaims(), jwt.MapClaims{"active": true, "token_type": "Bearer"}), changes)
}

// from is a caller with a token and an address.
func from(address, token string) *auth.Caller {
	c := bearer(token)
	c.RemoteAddr = address
	return c
}

// The issuer is asked once about an opaque token, however many requests have it at once.
func TestOpaqueTokens(t *testing.T) {
	key := newSigner("k1", "ES256")
	issuer := newIssuer(key)
	rs := newServer(t, issuer, introspecting)
	issuer.know("opaque", nil)
	var admittedAll atomic.Int64
	done := make(chan struct{})
	for range 20 {
		go func() {
			if p, err := rs.Authenticate(t.Context(), bearer("opaque")); err == nil && p.Subject == "ann" && p.HasScope("demo:write") {
				admittedAll.Add(1)
			}
			done <- struct{}{}
		}()
	}
	for range 20 {
		<-done
	}
	require.EqualValues(t, 20, admittedAll.Load())
	require.Equal(t, 1, issuer.fetches("/introspect"))
	before := issuer.fetches("/introspect")
	require.Equal(t, issuerName, admitted(t, rs, bearer("opaque")).Issuer)
	admitted(t, rs, bearer(key.sign(goodClaims(), nil)))
	require.Equal(t, before, issuer.fetches("/introspect"), "JWTs are verified here")
	require.EqualValues(t, 1, rs.Stats().Verifications[1].Accepted)
}

// The answer of the issuer is held to the rules for JWTs.
func TestAnswersToIntrospections(t *testing.T) {
	for name, c := range map[string]struct {
		changes jwt.MapClaims
		reason  string
	}{
		"good":             {nil, ""},
		"without iss":      {jwt.MapClaims{"iss": nil}, ""},
		"inactive":         {jwt.MapClaims{"active": false}, "token_inactive"},
		"active is a word": {jwt.MapClaims{"active": "true"}, "token_inactive"},
		"another issuer":   {jwt.MapClaims{"iss": "https://evil.example.com"}, "token_issuer"},
		"another resource": {jwt.MapClaims{"aud": "https://mcp.example.com/other"}, "token_audience"},
		"no audience":      {jwt.MapClaims{"aud": nil}, "token_audience"},
		"expired":          {jwt.MapClaims{"exp": time.Now().Add(-time.Minute).Unix()}, "token_expired"},
		"without exp":      {jwt.MapClaims{"exp": nil}, "token_claims"},
		"not yet":          {jwt.MapClaims{"nbf": time.Now().Add(time.Minute).Unix()}, "token_not_yet_valid"},
		"DPoP":             {jwt.MapClaims{"token_type": "DPoP"}, "token_type"},
		"bound to a key":   {jwt.MapClaims{"cnf": map[string]any{"jkt": "x"}}, "token_claims"},
		"no subject":       {jwt.MapClaims{"sub": nil}, "token_claims"},
	} {
		issuer := newIssuer()
		rs := newServer(t, issuer, introspecting)
		issuer.know("opaque", c.changes)
		if c.reason == "" {
			admitted(t, rs, bearer("opaque"))
			continue
		}
		r := refusedFor(t, rs, bearer("opaque"))
		require.Equal(t, c.reason, r.Reason, name)
		require.Equal(t, "invalid_token", r.PublicReason)
	}
}

// An address with too many bad tokens is refused before the issuer is asked. Others are not, and it may
// go on after a while. Good tokens count for nothing.
func TestFailuresOfAnAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issuer := newIssuer()
		rs := newServer(t, issuer, introspecting)
		for n := range 100 {
			issuer.know(fmt.Sprint("good", n), nil)
			admitted(t, rs, from("192.0.2.1:1", fmt.Sprint("good", n)))
		}
		asked := issuer.fetches("/introspect")
		for n := range 100 {
			r := refusedFor(t, rs, from(fmt.Sprintf("192.0.2.1:%d", n), fmt.Sprint("bad", n)))
			if n < 20 {
				require.Equal(t, "token_inactive", r.Reason)
				continue
			}
			require.Equal(t, "auth_rate_limited", r.Reason)
			require.Equal(t, 429, r.Status)
			require.Equal(t, "max_auth_failures", r.Limit)
			require.Equal(t, 3*time.Second, r.RetryAfter)
		}
		require.Equal(t, asked+20, issuer.fetches("/introspect"))
		admitted(t, rs, from("192.0.2.1:1", "good0")) // remembered
		issuer.know("new", nil)
		require.Equal(t, 429, refusedFor(t, rs, from("192.0.2.1:1", "new")).Status)
		admitted(t, rs, from("192.0.2.2:1", "new"))
		require.Equal(t, "token_inactive", refusedFor(t, rs, from("[2001:db8::1]:1", "bad")).Reason)
		time.Sleep(3 * time.Second)
		issuer.know("newer", nil)
		admitted(t, rs, from("192.0.2.1:1", "newer"))
		require.EqualValues(t, 81, rs.Stats().LimitsReached["max_auth_failures"])
	})
}

// newSlowServer returns a resource server that asks an issuer whose answers take a second.
func newSlowServer(t *testing.T) (*oauth.ResourceServer, *fakeIssuer) {
	t.Helper()
	issuer := newIssuer()
	rs := newServer(t, issuer, introspecting)
	require.NoError(t, rs.Check(t.Context()))
	issuer.answer(func(http.ResponseWriter, *http.Request) bool {
		time.Sleep(time.Second)
		return false
	})
	return rs, issuer
}

// Only an answer counts as a failure: neither many calls at once with good tokens, nor callers that leave before the answer, nor
// those that wait for the answer that another one has asked for.
func TestOnlyBadTokensAreFailures(t *testing.T) {
	each := func(n int, f func(n int)) {
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() { f(i) })
		}
		all.Wait()
	}
	for name, test := range map[string]func(*testing.T){
		"many good ones at once": func(t *testing.T) {
			rs, issuer := newSlowServer(t)
			each(30, func(n int) {
				issuer.know(fmt.Sprint("good", n), nil)
				admitted(t, rs, from("192.0.2.1:1", fmt.Sprint("good", n)))
			})
		},
		"one good one often": func(t *testing.T) {
			rs, issuer := newSlowServer(t)
			issuer.know("good", nil)
			each(30, func(int) { admitted(t, rs, from("192.0.2.1:1", "good")) })
		},
		"callers that leave": func(t *testing.T) {
			rs, issuer := newSlowServer(t)
			each(30, func(n int) {
				issuer.know(fmt.Sprint("good", n), nil)
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				defer cancel()
				_, err := rs.Authenticate(ctx, from("192.0.2.1:1", fmt.Sprint("good", n)))
				require.ErrorIs(t, err, context.DeadlineExceeded)
			})
			time.Sleep(2 * time.Second) // the issuer has answered
			issuer.know("new", nil)
			admitted(t, rs, from("192.0.2.1:1", "new"))
		},
		"callers that wait for the answer of another": func(t *testing.T) {
			rs, issuer := newSlowServer(t)
			each(100, func(n int) {
				time.Sleep(time.Duration(n)) // the first is at another address
				require.Equal(t, "token_inactive", refusedFor(t, rs, from(fmt.Sprintf("192.0.2.%d:1", min(n, 1)), "bad")).Reason)
			})
			require.Equal(t, 1, issuer.fetches("/introspect")-1) // the other one was Check's
			issuer.know("new", nil)
			admitted(t, rs, from("192.0.2.1:1", "new"))
		},
		"bad ones at once": func(t *testing.T) {
			rs, issuer := newSlowServer(t)
			each(30, func(n int) { refusedFor(t, rs, from("192.0.2.1:1", fmt.Sprint("bad", n))) })
			issuer.know("new", nil)
			require.Equal(t, 33*time.Second, refusedFor(t, rs, from("192.0.2.1:1", "new")).RetryAfter, "eleven too many, three seconds each")
			time.Sleep(33 * time.Second)
			admitted(t, rs, from("192.0.2.1:1", "new"))
		},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
	}
}

// The addresses whose failures are remembered are bounded.
func TestManyAddressesFail(t *testing.T) {
	issuer := newIssuer()
	rs := newServer(t, issuer, func(c *oauth.Config) {
		introspecting(c)
		c.Limits.MaxAuthAddresses = 10
	})
	for n := range 100 {
		require.Equal(t, "token_inactive", refusedFor(t, rs, from(fmt.Sprintf("192.0.2.%d:1", n), fmt.Sprint("bad", n))).Reason)
	}
	require.EqualValues(t, 90, rs.Stats().LimitsReached["max_auth_addresses"])
}

// Introspections at one time are bounded, and each has a time-out. A caller is not punished for an
// issuer that does not answer.
func TestSlowIntrospections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issuer := newIssuer()
		rs := newServer(t, issuer, func(c *oauth.Config) {
			introspecting(c)
			c.Limits.MaxIntrospections, c.Limits.MaxAuthFailures = 4, 10
		})
		require.NoError(t, rs.Check(t.Context()))
		issuer.answer(func(_ http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done()
			return false
		})
		began := time.Now()
		var waited, full atomic.Int64
		for n := range 10 {
			go func() {
				r := refusedFor(t, rs, bearer(fmt.Sprint("opaque", n)))
				switch {
				case r.Reason == "issuer_unavailable" && r.Limit == "max_introspections" && time.Since(began) == 0:
					full.Add(1)
				case r.Reason == "issuer_unavailable" && time.Since(began) == 5*time.Second:
					waited.Add(1)
				}
			}()
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		require.EqualValues(t, 3, waited.Load(), "one place is for other addresses")
		require.EqualValues(t, 7, full.Load())
		require.EqualValues(t, 7, rs.Stats().LimitsReached["max_introspections"])
		require.EqualValues(t, 10, rs.Stats().Verifications[2].Unavailable)
		issuer.answer(nil)
		issuer.know("opaque", nil)
		admitted(t, rs, bearer("opaque"))
	})
}

// One address cannot take all introspections at one time: others have room.
func TestOneAddressLeavesRoomForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rs, issuer := newSlowServer(t)
		var all sync.WaitGroup
		for n := range 100 {
			all.Go(func() { refusedFor(t, rs, from("192.0.2.1:1", fmt.Sprint("bad", n))) })
		}
		synctest.Wait()
		issuer.know("good", nil)
		admitted(t, rs, from("192.0.2.2:1", "good"))
		all.Wait()
		require.Greater(t, issuer.fetches("/introspect"), 20, "it has most of the room")
	})
}

// Credentials that the issuer does not take are the server's fault, and Check says so.
func TestIntrospectionWithBadCredentials(t *testing.T) {
	issuer := newIssuer()
	rs := newServer(t, issuer, func(c *oauth.Config) {
		c.Introspection = &oauth.Introspection{ClientID: "vitrine", ClientSecret: "old"}
	})
	require.ErrorContains(t, rs.Check(t.Context()), "https://login.example.com/introspect answers with status 401: are Introspection.ClientID and ClientSecret right?")
	require.Equal(t, 503, refusedFor(t, rs, bearer("opaque")).Status)
}

// With Always the issuer is asked about JWTs too, so that a revoked one is refused.
func TestIntrospectionOfJWTs(t *testing.T) {
	key := newSigner("k1", "ES256")
	issuer := newIssuer(key)
	rs := newServer(t, issuer, func(c *oauth.Config) {
		introspecting(c)
		c.Introspection.Always, c.Introspection.Endpoint = true, issuerName+"/introspect"
	})
	token := key.sign(goodClaims(), nil)
	require.Equal(t, "token_inactive", refusedFor(t, rs, bearer(token)).Reason)
	token = key.sign(with(goodClaims(), jwt.MapClaims{"jti": "2"}), nil)
	issuer.know(token, nil)
	admitted(t, rs, bearer(token))
	require.Zero(t, issuer.fetches("/keys"))
}

// With Always and several issuers, the one that is asked sees no tokens of the others.
func TestIntrospectionOfJWTsOfSeveralIssuers(t *testing.T) {
	first, second := newSigner("k1", "ES256"), newSigner("k1", "ES256")
	one, two := newIssuer(first), newIssuer(second)
	two.name = "https://other.example.com"
	rs := newServer(t, one, func(c *oauth.Config) {
		c.Issuers = []string{one.name, two.name}
		c.Client = &http.Client{Transport: byHost{"login.example.com": one, "other.example.com": two}}
		introspecting(c)
		c.Introspection.Issuer, c.Introspection.Endpoint, c.Introspection.Always = one.name, one.name+"/introspect", true
	})
	other := jwt.MapClaims{"iss": two.name}
	require.Equal(t, two.name, admitted(t, rs, bearer(second.sign(with(goodClaims(), other), nil))).Issuer)
	require.Equal(t, "token_signature", refusedFor(t, rs, bearer(first.sign(with(goodClaims(), other), nil))).Reason)
	require.Zero(t, one.fetches("/introspect"))

	token := first.sign(goodClaims(), nil)
	require.Equal(t, "token_inactive", refusedFor(t, rs, bearer(token)).Reason)
	token = first.sign(with(goodClaims(), jwt.MapClaims{"jti": "2"}), nil)
	one.know(token, nil)
	require.Equal(t, one.name, admitted(t, rs, bearer(token)).Issuer)
	one.know("opaque", nil)
	admitted(t, rs, bearer("opaque"))
	require.Equal(t, 3, one.fetches("/introspect"))
}

// Without introspection an opaque token is malformed, and the issuer is not asked.
func TestOpaqueTokenWithoutIntrospection(t *testing.T) {
	issuer := newIssuer()
	issuer.know("opaque", nil)
	rs := newServer(t, issuer, nil)
	require.Equal(t, "token_malformed", refusedFor(t, rs, bearer("opaque")).Reason)
	require.Zero(t, issuer.requests())
}
