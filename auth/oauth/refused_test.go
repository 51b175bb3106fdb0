package oauth_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
)

// A client that repeats one bad token causes one introspection in five seconds, and one failure of its address. Others behind
// that address are served, with tokens that are new as well.
func TestOneBadTokenDoesNotShutOutItsAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issuer := newIssuer()
		rs := newServer(t, issuer, introspecting)
		for second := range 300 {
			for range 4 { // clients may come again at once
				require.Equal(t, "token_inactive", refusedFor(t, rs, from("192.0.2.1:1", "revoked")).Reason)
			}
			good := fmt.Sprint("good", second/30)
			issuer.know(good, nil)
			admitted(t, rs, from("192.0.2.1:2", good))
			time.Sleep(time.Second)
		}
		require.LessOrEqual(t, issuer.fetches("/introspect"), 300/5+2*10, "of the revoked token, and of each good one twice")
		require.Zero(t, rs.Stats().LimitsReached["max_auth_failures"])
		require.EqualValues(t, 4*300-300/5, rs.Stats().Verifications[0].Refused, "the others were known to be bad")
		require.EqualValues(t, 300/5, rs.Stats().Verifications[2].Refused)
	})
}

// A token that was good when the issuer was asked before is asked about although its address has too many failures. If it has
// been revoked meanwhile, that holds once.
func TestKnownTokensOfALimitedAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issuer := newIssuer()
		rs := newServer(t, issuer, introspecting)
		issuer.know("good", nil)
		issuer.know("short", jwt.MapClaims{"exp": time.Now().Add(70 * time.Second).Unix()})
		admitted(t, rs, from("192.0.2.1:1", "good"))
		admitted(t, rs, from("192.0.2.1:1", "short"))
		bad := 0
		limit := func() { // the address has too many failures
			for {
				bad++
				if refusedFor(t, rs, from("192.0.2.1:1", fmt.Sprint("bad", bad))).Status == 429 {
					return
				}
			}
		}
		time.Sleep(61 * time.Second) // the cache does not know them any more
		limit()
		issuer.know("new", nil)
		require.Equal(t, 429, refusedFor(t, rs, from("192.0.2.1:1", "new")).Status)
		admitted(t, rs, from("192.0.2.1:1", "good"))

		time.Sleep(61 * time.Second)
		limit()
		require.Equal(t, 429, refusedFor(t, rs, from("192.0.2.1:1", "short")).Status, "a token that has expired is none that was good")
		issuer.know("good", jwt.MapClaims{"active": false})
		require.Equal(t, "token_inactive", refusedFor(t, rs, from("192.0.2.1:1", "good")).Reason)
		time.Sleep(6 * time.Second)
		limit()
		require.Equal(t, 429, refusedFor(t, rs, from("192.0.2.1:1", "good")).Status)
	})
}

// A token that the issuer knows a moment later is good within five seconds.
func TestRefusedTokensAreForgottenSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issuer := newIssuer()
		rs := newServer(t, issuer, introspecting)
		require.Equal(t, "token_inactive", refusedFor(t, rs, bearer("early")).Reason)
		issuer.know("early", nil)
		time.Sleep(5 * time.Second)
		admitted(t, rs, bearer("early"))
	})
}

// What is remembered of refused tokens is bounded, and what does not fit is asked about again. An issuer that cannot be asked
// says nothing about a token.
func TestRefusedTokensAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		issuer := newIssuer()
		rs := newServer(t, issuer, introspecting)
		const tokens = 3000
		for range 2 {
			for n := range tokens {
				address := fmt.Sprintf("10.0.%d.%d:1", n>>8, n&255)
				require.Equal(t, "token_inactive", refusedFor(t, rs, from(address, fmt.Sprint("bad", n))).Reason)
			}
		}
		require.LessOrEqual(t, rs.Stats().Verifications[0].Refused, uint64(1024))
		require.NotZero(t, rs.Stats().Verifications[0].Refused)

		issuer.setDown(true)
		require.Equal(t, "issuer_unavailable", refusedFor(t, rs, bearer("opaque")).Reason)
		issuer.setDown(false)
		issuer.know("opaque", nil)
		admitted(t, rs, bearer("opaque"))
	})
}
